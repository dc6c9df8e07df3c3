package rest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
)

// maxCommit bounds a commit, bytes. Those that can be accepted are far shorter.
const maxCommit = 4 << 20

// Actions of a commit that the specification knows and that no table here takes: a table follows its topic.
const foreignUpdates = " assign-uuid upgrade-format-version add-schema set-current-schema add-spec set-default-spec" +
	" add-sort-order set-default-sort-order add-snapshot remove-snapshots set-location set-properties remove-properties" +
	" set-statistics remove-statistics set-partition-statistics remove-partition-statistics remove-partition-specs" +
	" remove-schemas add-encryption-key remove-encryption-key "

// commit is the body of a table commit: CommitTableRequest of the specification. Fields that are not named here are
// of updates and requirements that are refused by their names.
type commit struct {
	Requirements []requirement     `json:"requirements"`
	Updates      []json.RawMessage `json:"updates"`
}

type requirement struct {
	Type       string `json:"type"`
	UUID       string `json:"uuid"`
	Ref        string `json:"ref"`
	SnapshotID *int64 `json:"snapshot-id"`
}

// update is one change of refs. Java writes the retention fields only where they are set.
type update struct {
	Action             string `json:"action"`
	Name               string `json:"ref-name"`
	Type               string `json:"type"`
	SnapshotID         *int64 `json:"snapshot-id"`
	MaxRefAgeMs        *int64 `json:"max-ref-age-ms"`
	MaxSnapshotAgeMs   *int64 `json:"max-snapshot-age-ms"`
	MinSnapshotsToKeep *int64 `json:"min-snapshots-to-keep"`
}

func badCommit(format string, args ...any) error {
	return refuse(http.StatusBadRequest, "BadRequestException", format, args...)
}

func forbidden(format string, args ...any) error {
	return refuse(http.StatusForbidden, "ForbiddenException", format, args...)
}

// updateTable takes commits that set and remove tags, whole or not at all.
func (h *Handler) updateTable(q *request) error {
	ns, table, err := h.visibleTable(q)
	if err != nil {
		return err
	}
	if !q.principal.MayWrite(ns, table) {
		return forbidden("Not allowed to change table %s: its data follows its topic, and auth.tokens[].write lets a principal tag it", printable(ns+"."+table))
	}
	c, err := h.readCommit(q)
	if err != nil {
		return err
	}
	req := &catalogv1.UpdateTagsRequest{Warehouse: q.warehouse, Namespace: ns, Table: table}
	// What is asked for is understood before anything is required: an unknown word is a mistake in any state.
	for _, raw := range c.Updates {
		change, err := tagChange(raw)
		if err != nil {
			return err
		}
		req.Changes = append(req.Changes, change)
	}
	for _, r := range c.Requirements {
		if err := addRequirement(req, r); err != nil {
			return err
		}
	}
	resp, err := h.deps.Catalog.UpdateTags(q.r.Context(), req)
	if err != nil {
		return h.commitError(q, ns, table, err)
	}
	h.deps.Log.Info("tags changed", "principal", q.principal.Name, "namespace", ns, "table", table, "changes", len(req.GetChanges()))
	h.loaded.Add(strings.Join([]string{q.warehouse, ns, table}, "\x00"), resp.GetMetadataLocation(), 1)
	q.w.Header().Set("Cache-Control", "no-store")
	return q.answer(map[string]any{
		"metadata-location": resp.GetMetadataLocation(), "metadata": json.RawMessage(resp.GetMetadataJson()),
	})
}

func (h *Handler) readCommit(q *request) (c commit, err error) {
	body, err := h.body(q, maxCommit)
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(body, &c); err != nil {
		return c, badCommit("The commit is not what the specification calls a CommitTableRequest")
	}
	return c, nil
}

// tagChange reads one update: a tag, a refusal of what tables here do not take, or a mistake.
func tagChange(raw json.RawMessage) (*catalogv1.TagChange, error) {
	var u update
	if err := json.NewDecoder(bytes.NewReader(raw)).Decode(&u); err != nil || u.Action == "" {
		return nil, badCommit("An update is malformed")
	}
	switch {
	case strings.Contains(foreignUpdates, " "+u.Action+" "):
		return nil, forbidden("A table follows its topic: update %s is not taken, only tags are", u.Action)
	case u.Action != "set-snapshot-ref" && u.Action != "remove-snapshot-ref":
		return nil, badCommit("There is no update %s", printable(u.Action))
	case u.Name == "":
		return nil, badCommit("Update %s names no ref", u.Action)
	case u.Name == "main":
		return nil, forbidden("main follows the topic: it is neither set nor removed")
	case u.Action == "remove-snapshot-ref":
		return &catalogv1.TagChange{Name: u.Name}, nil
	case u.Type == "branch":
		return nil, forbidden("A table follows its topic: it has no branches beside main, only tags")
	case u.Type != "tag":
		return nil, badCommit("A ref is a tag or a branch, not %s", printable(u.Type))
	case u.SnapshotID == nil || *u.SnapshotID <= 0:
		return nil, badCommit("Tag %s is set to no snapshot", printable(u.Name))
	case u.MaxRefAgeMs != nil:
		return nil, forbidden("A tag is kept until it is removed, or until the topic loses rows that it needs: max-ref-age-ms is not taken")
	case u.MaxSnapshotAgeMs != nil || u.MinSnapshotsToKeep != nil:
		return nil, badCommit("A tag has no snapshots to keep but its own")
	}
	return &catalogv1.TagChange{Name: u.Name, SnapshotId: *u.SnapshotID}, nil
}

// addRequirement takes what the table can be held to. The others of the specification are about parts that no accepted
// update touches; they hold as long as the table is the same one.
func addRequirement(req *catalogv1.UpdateTagsRequest, r requirement) error {
	switch r.Type {
	case "assert-table-uuid":
		if r.UUID == "" || req.GetTableUuid() != "" && req.GetTableUuid() != strings.ToLower(r.UUID) {
			return refuse(http.StatusConflict, "CommitFailedException", "Requirement failed: the table has another UUID")
		}
		req.TableUuid = strings.ToLower(r.UUID)
	case "assert-ref-snapshot-id":
		if r.Ref == "" {
			return badCommit("Requirement %s names no ref", r.Type)
		}
		want := &catalogv1.RefRequirement{Name: r.Ref}
		if r.SnapshotID != nil {
			want.SnapshotId = *r.SnapshotID
		}
		req.Requirements = append(req.Requirements, want)
	case "assert-create":
		return refuse(http.StatusConflict, "CommitFailedException", "Requirement failed: the table exists")
	case "assert-last-assigned-field-id", "assert-current-schema-id", "assert-last-assigned-partition-id",
		"assert-default-spec-id", "assert-default-sort-order-id":
		return forbidden("A table follows its topic: requirement %s is not taken with tags", r.Type)
	default:
		return badCommit("There is no requirement %s", printable(r.Type))
	}
	return nil
}

// commitError maps what a commit failed with. A conflict is a requirement that is not met.
func (h *Handler) commitError(q *request, ns, table string, err error) error {
	if err = rpc.Error(err); errors.Is(err, fault.ErrConflict) {
		return refuse(http.StatusConflict, "CommitFailedException", "%s", fmt.Sprintf("Requirement failed: %v", err))
	}
	return h.tableError(q, ns, table, err)
}
