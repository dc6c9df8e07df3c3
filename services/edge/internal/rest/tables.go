package rest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

// visibleTable decodes namespace and table of the path. A table that the principal may not see does not exist.
func (h *Handler) visibleTable(q *request) (ns, table string, err error) {
	if ns, err = q.namespace(); err != nil {
		return "", "", err
	}
	if table, err = q.table(); err != nil {
		return "", "", err
	}
	if !q.principal.Sees(ns, table) {
		return "", "", h.noTable(q, ns, table)
	}
	return ns, table, nil
}

// noTable finds out which of the two is missing: clients tell them apart by type.
func (h *Handler) noTable(q *request, ns, table string) error {
	if err := h.checkNamespace(q, ns); err != nil {
		return err
	}
	return refuse(http.StatusNotFound, "NoSuchTableException", "Table does not exist: %s", printable(ns+"."+table))
}

// tableError is what a call about a table failed with.
func (h *Handler) tableError(q *request, ns, table string, err error) error {
	err = rpc.Error(err)
	if errors.Is(err, fault.ErrNotFound) {
		return h.noTable(q, ns, table)
	}
	return err
}

func (h *Handler) tableExists(q *request) error {
	ns, table, err := h.visibleTable(q)
	if err != nil {
		return err
	}
	if _, err := h.deps.Catalog.TableExists(q.r.Context(), &catalogv1.TableExistsRequest{Namespace: ns, Table: table}); err != nil {
		return h.tableError(q, ns, table, err)
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) loadTable(q *request) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	mode := query.Get("snapshots")
	if mode == "" {
		mode = "all"
	}
	if mode != "all" && mode != "refs" {
		return refuse(http.StatusBadRequest, "BadRequestException", "snapshots must be all or refs")
	}
	ns, table, err := h.visibleTable(q)
	if err != nil {
		return err
	}
	req := &catalogv1.LoadTableRequest{Warehouse: q.warehouse, Namespace: ns, Table: table, RefsOnly: mode == "refs"}
	hint := strings.Join([]string{q.warehouse, ns, table}, "\x00")
	known := q.r.Header.Values("If-None-Match")
	if len(known) > 0 {
		req.KnownMetadataLocation, _ = h.loaded.Get(hint)
	}
	resp, err := h.deps.Catalog.LoadTable(q.r.Context(), req)
	if err != nil {
		return h.tableError(q, ns, table, err)
	}
	if h.deps.Loaded != nil {
		h.deps.Loaded(table, resp.GetStateEpoch())
	}
	tag := h.etag(q, resp.GetMetadataLocation(), mode)
	if matches(known, tag) {
		q.setETag(tag)
		q.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if len(resp.GetMetadataJson()) == 0 {
		// The hint was right and the client's copy is not: another client loaded the newest version before.
		req.KnownMetadataLocation = ""
		if resp, err = h.deps.Catalog.LoadTable(q.r.Context(), req); err != nil {
			return h.tableError(q, ns, table, err)
		}
		tag = h.etag(q, resp.GetMetadataLocation(), mode)
	}
	if len(resp.GetMetadataJson()) == 0 || resp.GetMetadataLocation() == "" {
		return fmt.Errorf("load table: answer without metadata: %w", fault.ErrCorrupt)
	}
	h.loaded.Add(hint, resp.GetMetadataLocation(), 1)
	return h.answerTable(q, ns, table, tag, resp)
}

func (h *Handler) answerTable(q *request, ns, table, tag string, resp *catalogv1.LoadTableResponse) error {
	prefix, config, err := h.credentials(q, ns, table, resp)
	if err != nil {
		return err
	}
	location, err := json.Marshal(resp.GetMetadataLocation())
	if err != nil {
		return fmt.Errorf("encode metadata location: %w", err)
	}
	configJSON, err := json.Marshal(config)
	if err != nil {
		return fmt.Errorf("encode table config: %w", err)
	}
	credentials, err := json.Marshal(storageCredentials(prefix, config))
	if err != nil {
		return fmt.Errorf("encode storage credentials: %w", err)
	}
	// The metadata is the catalog's bytes as they are: they may be large.
	pieces := [][]byte{
		[]byte(`{"metadata-location":`), location, []byte(`,"metadata":`), resp.GetMetadataJson(),
		[]byte(`,"config":`), configJSON, []byte(`,"storage-credentials":`), credentials, []byte("}"),
	}
	total := 0
	for _, p := range pieces {
		total += len(p)
	}
	q.setETag(tag)
	header := q.w.Header()
	header.Set("Content-Type", "application/json")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Length", strconv.Itoa(total))
	q.w.WriteHeader(http.StatusOK)
	for _, p := range pieces {
		if _, err := q.w.Write(p); err != nil {
			return nil //nolint:nilerr // the client left
		}
	}
	return nil
}

func (h *Handler) loadCredentials(q *request) error {
	ns, table, err := h.visibleTable(q)
	if err != nil {
		return err
	}
	hint, _ := h.loaded.Get(strings.Join([]string{q.warehouse, ns, table}, "\x00"))
	resp, err := h.deps.Catalog.LoadTable(q.r.Context(), &catalogv1.LoadTableRequest{
		Warehouse: q.warehouse, Namespace: ns, Table: table, RefsOnly: true, KnownMetadataLocation: hint,
	})
	if err != nil {
		return h.tableError(q, ns, table, err)
	}
	prefix, config, err := h.credentials(q, ns, table, resp)
	if err != nil {
		return err
	}
	q.w.Header().Set("Cache-Control", "no-store")
	return q.answer(map[string]any{"storage-credentials": storageCredentials(prefix, config)})
}

type storageCredential struct {
	Prefix string            `json:"prefix"`
	Config map[string]string `json:"config"`
}

// storageCredentials has exactly one entry: Java and Trino refuse to refresh from more.
func storageCredentials(prefix string, config map[string]string) []storageCredential {
	return []storageCredential{{prefix, config}}
}

// credentials vends for a loaded table. They are given to every client: this endpoint knows no other ones.
func (h *Handler) credentials(q *request, ns, table string, resp *catalogv1.LoadTableResponse) (prefix string, config map[string]string, err error) {
	key, ok := strings.CutPrefix(resp.GetLocation(), "s3://"+h.cfg.Bucket+"/")
	if !ok || key == "" {
		return "", nil, fmt.Errorf("vend credentials: location %q is not in the bucket: %w", resp.GetLocation(), fault.ErrCorrupt)
	}
	scope := vend.Scope{
		Principal: q.principal.Name, Warehouse: q.warehouse, Namespace: ns, Table: table,
		Prefix: strings.TrimSuffix(key, "/") + "/",
	}
	c, err := h.deps.Vendor.Vend(scope, h.deps.Now())
	if err != nil {
		return "", nil, err
	}
	config = h.storageConfig(q.r)
	expires := strconv.FormatInt(c.Expires.UnixMilli(), 10)
	config["s3.access-key-id"] = c.AccessKey
	config["s3.secret-access-key"] = c.Secret
	config["s3.session-token"] = c.SessionToken
	config["s3.session-token-expires-at-ms"] = expires
	config["expiration-time"] = expires // iceberg-go 0.7
	config["client.refresh-credentials-enabled"] = "true"
	config["client.refresh-credentials-endpoint"] = "v1/" + url.PathEscape(q.warehouse) + "/namespaces/" +
		url.PathEscape(ns) + "/tables/" + url.PathEscape(table) + "/credentials"
	h.audit(q, ns, table, c)
	return resp.GetLocation(), config, nil
}

// audit logs credentials once, not each time the same ones are answered.
func (h *Handler) audit(q *request, ns, table string, c vend.Credentials) {
	if _, seen := h.vended.Get(c.AccessKey); !seen {
		h.vended.Add(c.AccessKey, struct{}{}, 1)
		h.deps.Log.Info("credentials vended", "principal", q.principal.Name, "warehouse", q.warehouse,
			"namespace", ns, "table", table, "access_key", c.AccessKey, "expires", c.Expires)
	}
}

// storageConfig is what clients must know to talk to the S3 endpoint at all. Which client needs which key:
// both regions (PyIceberg reads either), the slash at the endpoint's end (ClickHouse 26.9), the scheme and
// path style (DuckDB), the timeouts (PyArrow leaves after 3 s without a byte).
func (h *Handler) storageConfig(r *http.Request) map[string]string {
	return map[string]string{
		"s3.endpoint":               h.cfg.Endpoint(r),
		"s3.path-style-access":      "true",
		"s3.region":                 h.cfg.Region,
		"client.region":             h.cfg.Region,
		"s3.request-timeout":        strconv.FormatInt(int64(h.cfg.RequestTimeout.Seconds()), 10),
		"s3.connect-timeout":        strconv.FormatInt(int64(h.cfg.ConnectTimeout.Seconds()), 10),
		"s3.remote-signing-enabled": "false",
	}
}

// etag covers everything that an answer to the principal is made of. The credential epoch lets a copy count as
// current only while its credentials are in the first half of their life: the Java client goes on with the cached
// ones after a 304.
func (h *Handler) etag(q *request, location, mode string) string {
	sum := sha256.New()
	for _, part := range []string{
		location, mode, q.warehouse, q.principal.Name, h.cfg.Endpoint(q.r),
		strconv.FormatInt(h.deps.Vendor.Epoch(h.deps.Now()), 10),
		strings.ToLower(strings.Join(q.r.Header.Values("X-Iceberg-Access-Delegation"), ",")),
	} {
		sum.Write([]byte(strconv.Itoa(len(part))))
		sum.Write([]byte{':'})
		sum.Write([]byte(part))
	}
	return `"fz1-` + hex.EncodeToString(sum.Sum(nil)[:16]) + `"`
}

// setETag spells the header as Java looks it up: in a case-sensitive map. net/http's own spelling is Etag.
func (q *request) setETag(tag string) { q.w.Header()["ETag"] = []string{tag} }

// matches reports whether an If-None-Match names the tag, compared weakly (RFC 9110, 13.1.2).
func matches(headers []string, tag string) bool {
	for _, header := range headers {
		for candidate := range strings.SplitSeq(header, ",") {
			candidate = strings.TrimSpace(candidate)
			if candidate == "*" || strings.TrimPrefix(candidate, "W/") == tag {
				return true
			}
		}
	}
	return false
}

// maxReport bounds a metrics report, bytes.
const maxReport = 1 << 20

func (h *Handler) reportMetrics(q *request) error {
	ns, table, err := h.visibleTable(q)
	if err != nil {
		return err
	}
	body, err := h.body(q, maxReport)
	if err != nil {
		return err
	}
	var report struct {
		Type       string `json:"report-type"`
		SnapshotID int64  `json:"snapshot-id"`
	}
	if err := json.Unmarshal(body, &report); err != nil {
		return refuse(http.StatusBadRequest, "BadRequestException", "The report is not a JSON object")
	}
	if _, err := h.deps.Catalog.TableExists(q.r.Context(), &catalogv1.TableExistsRequest{Namespace: ns, Table: table}); err != nil {
		return h.tableError(q, ns, table, err)
	}
	h.deps.Log.Debug("metrics reported", "table", table, "snapshot_id", report.SnapshotID, "report_type", printable(report.Type), "size_bytes", len(body))
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}
