package rest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	"github.com/frazil-io/frazil/services/edge/internal/observe"
)

func (h *Handler) getConfig(q *request) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	warehouse := query.Get("warehouse")
	if warehouse == "" {
		warehouse = h.cfg.DefaultWarehouse
	}
	if !isWarehouse(warehouse) {
		return noWarehouse(warehouse)
	}
	defaults := h.storageConfig(q.r)
	// Java sends headers from header.* only; the others ask by themselves.
	defaults["header.X-Iceberg-Access-Delegation"] = "vended-credentials"
	defaults["rest-metrics-reporting-enabled"] = "true"
	overrides := map[string]string{"prefix": warehouse}
	if h.cfg.PublicURI != "" {
		overrides["uri"] = h.cfg.PublicURI
	}
	q.w.Header().Set("Content-Type", "application/json")
	writeJSON(q.w, http.StatusOK, map[string]any{
		"defaults": defaults, "overrides": overrides, "endpoints": Endpoints(q.principal.Writes()),
	})
	return nil
}

// refuseToken answers the deprecated token endpoint in OAuth's form, which clients expect there.
func refuseToken(w *observe.Writer) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	writeJSON(w, http.StatusBadRequest, map[string]string{
		"error":             "unsupported_grant_type",
		"error_description": "The catalog issues no tokens: configure the client with a token",
	})
	return nil
}

func (h *Handler) namespaces(q *request) ([]string, error) {
	resp, err := h.deps.Catalog.ListNamespaces(q.r.Context(), &catalogv1.ListNamespacesRequest{})
	if err != nil {
		return nil, rpc.Error(err)
	}
	return resp.GetNamespaces(), nil
}

// existingNamespace decodes the namespace of the path and refuses one that is not there.
func (h *Handler) existingNamespace(q *request) (string, error) {
	name, err := q.namespace()
	if err != nil {
		return "", err
	}
	return name, h.checkNamespace(q, name)
}

func (h *Handler) checkNamespace(q *request, name string) error {
	all, err := h.namespaces(q)
	if err != nil {
		return err
	}
	if !slices.Contains(all, name) {
		return refuse(http.StatusNotFound, "NoSuchNamespaceException", "Namespace does not exist: %s", printable(name))
	}
	return nil
}

func (h *Handler) listNamespaces(q *request) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	all, err := h.namespaces(q)
	if err != nil {
		return err
	}
	if parent := query.Get("parent"); parent != "" {
		if !slices.Contains(all, parent) {
			return refuse(http.StatusNotFound, "NoSuchNamespaceException", "Namespace does not exist: %s", printable(parent))
		}
		all = nil // namespaces have one level
	}
	page, next, err := paginate(query, all)
	if err != nil {
		return err
	}
	out := make([][]string, len(page))
	for i, n := range page {
		out[i] = []string{n}
	}
	return q.answer(map[string]any{"namespaces": out, "next-page-token": next})
}

func (h *Handler) loadNamespace(q *request) error {
	name, err := h.existingNamespace(q)
	if err != nil {
		return err
	}
	return q.answer(map[string]any{"namespace": []string{name}, "properties": map[string]string{}})
}

func (h *Handler) namespaceExists(q *request) error {
	if _, err := h.existingNamespace(q); err != nil {
		return err
	}
	q.w.WriteHeader(http.StatusNoContent)
	return nil
}

type identifier struct {
	Namespace []string `json:"namespace"`
	Name      string   `json:"name"`
}

func (h *Handler) listTables(q *request) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	ns, err := h.existingNamespace(q)
	if err != nil {
		return err
	}
	resp, err := h.deps.Catalog.ListTables(q.r.Context(), &catalogv1.ListTablesRequest{Namespace: ns})
	if err != nil {
		return rpc.Error(err)
	}
	// Pages are cut here, after hiding: a page token then never tells the name of a hidden table.
	names := make([]string, 0, len(resp.GetTables()))
	for _, t := range resp.GetTables() {
		if q.principal.Sees(ns, t.GetTable()) {
			names = append(names, t.GetTable())
		}
	}
	page, next, err := paginate(query, names)
	if err != nil {
		return err
	}
	out := make([]identifier, len(page))
	for i, n := range page {
		out[i] = identifier{[]string{ns}, n}
	}
	return q.answer(map[string]any{"identifiers": out, "next-page-token": next})
}

func (h *Handler) listViews(q *request) error {
	query, err := q.query()
	if err != nil {
		return err
	}
	if _, err := h.existingNamespace(q); err != nil {
		return err
	}
	if _, _, err := paginate(query, nil); err != nil {
		return err
	}
	return q.answer(map[string]any{"identifiers": []identifier{}, "next-page-token": nil})
}

// paginate cuts a page out of sorted names. Without a pageToken everything is one page, whatever pageSize says.
// The token holds the last name of the page before, so that any edge continues, also when names came or went.
func paginate(query url.Values, names []string) (page []string, next *string, err error) {
	size := len(names)
	if query.Has("pageSize") {
		n, err := strconv.Atoi(query.Get("pageSize"))
		if err != nil || n < 1 {
			return nil, nil, refuse(http.StatusBadRequest, "BadRequestException", "pageSize must be a number of at least 1")
		}
		size = n
	}
	if !query.Has("pageToken") {
		return names, nil, nil
	}
	after := ""
	if token := query.Get("pageToken"); token != "" {
		raw, err := base64.RawURLEncoding.Strict().DecodeString(token)
		name, ok := strings.CutPrefix(string(raw), "1:")
		if err != nil || !ok {
			return nil, nil, refuse(http.StatusBadRequest, "BadRequestException", "pageToken was not made by this catalog")
		}
		after = name
	}
	names = slices.Clone(names)
	slices.Sort(names)
	from := 0
	for from < len(names) && after != "" && names[from] <= after {
		from++
	}
	names = names[from:]
	if len(names) <= size {
		return names, nil, nil
	}
	token := base64.RawURLEncoding.EncodeToString([]byte("1:" + names[size-1]))
	return names[:size], &token, nil
}

// query decodes the query strictly: what can't be decoded is refused, not dropped.
func (q *request) query() (url.Values, error) {
	v, err := url.ParseQuery(q.r.URL.RawQuery)
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "BadRequestException", "The query is not decodable")
	}
	return v, nil
}

func (q *request) answer(body any) error {
	q.w.Header().Set("Content-Type", "application/json")
	writeJSON(q.w, http.StatusOK, body)
	return nil
}

// writeJSON writes maps of texts and numbers, which always encode. A failing writer is a client that left.
func writeJSON(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"error":{"message":"internal error","type":"InternalServerError","code":500}}`)
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(raw)))
	w.WriteHeader(status)
	if _, err := w.Write(raw); err != nil {
		return
	}
}

// printable is a name for an error text: without control characters, and cut.
func printable(name string) string {
	const most = 256
	if len(name) > most {
		name = name[:most]
	}
	return strings.ToValidUTF8(strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f {
			return '.'
		}
		return r
	}, name), "?")
}
