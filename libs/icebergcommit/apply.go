package icebergcommit

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strconv"

	"github.com/google/uuid"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Requirements and Updates are the JSON of a commit in the REST catalog API (CommitTableRequest): the catalog applies
// the updates only if the branch still points to the parent.
func (c *Commit) Requirements() []any {
	var parent any // null = the branch must not be there
	if c.ParentID != 0 {
		parent = c.ParentID
	}
	return []any{
		map[string]any{"type": "assert-table-uuid", "uuid": c.TableUUID},
		map[string]any{"type": "assert-ref-snapshot-id", "ref": c.Branch, "snapshot-id": parent},
	}
}

// Updates are what the catalog does, see Requirements. Errors: fault.ErrCorrupt.
func (c *Commit) Updates() ([]any, error) {
	ref := map[string]any{}
	if err := json.Unmarshal(c.Ref, &ref); err != nil {
		return nil, fmt.Errorf("ref: %w: %w", fault.ErrCorrupt, err)
	}
	ref["action"], ref["ref-name"], ref["snapshot-id"] = "set-snapshot-ref", c.Branch, c.SnapshotID
	if c.Snapshot == nil {
		return []any{ref}, nil
	}
	return []any{map[string]any{"action": "add-snapshot", "snapshot": c.Snapshot}, ref}, nil
}

// Apply answers the table metadata after the commit, for catalogs that keep only its location: raw and at are the
// metadata now and its location. Keys that are not known here stay as they are. Errors: fault.ErrConflict if the branch
// has moved, fault.ErrCorrupt.
func (c *Commit) Apply(raw []byte, at string) ([]byte, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil {
		return nil, fmt.Errorf("table metadata: %w: %w", fault.ErrCorrupt, err)
	}
	t, err := icebergscan.ParseTable(raw)
	if err != nil {
		return nil, err
	}
	head, err := t.Head(c.Branch)
	if head == nil {
		head = &icebergscan.Snapshot{}
	}
	last := c.sequence
	if c.Snapshot != nil {
		last--
	}
	if err != nil || head.ID != c.ParentID || t.UUID != c.TableUUID || t.LastSequenceNumber != last {
		return nil, fmt.Errorf("branch %s has moved: %w", c.Branch, fault.ErrConflict)
	}
	e := editor{m: m}
	if c.Snapshot != nil {
		e.appendTo("snapshots", c.Snapshot)
	}
	refs := map[string]json.RawMessage{}
	e.get("refs", &refs)
	refs = maps.Clone(refs)
	refs[c.Branch] = c.Ref
	e.set("refs", refs)
	e.set("last-sequence-number", c.sequence)
	if t.FormatVersion >= 3 {
		e.set("next-row-id", c.nextRowID)
	}
	if c.Branch == icebergscan.MainBranch {
		e.set("current-snapshot-id", c.SnapshotID)
		e.appendTo("snapshot-log", map[string]any{"snapshot-id": c.SnapshotID, "timestamp-ms": c.timestamp})
	}
	keep, err := strconv.Atoi(t.Properties["write.metadata.previous-versions-max"])
	if err != nil || keep < 1 {
		keep = 100
	}
	e.appendTo("metadata-log", map[string]any{"metadata-file": at, "timestamp-ms": t.LastUpdatedMs})
	e.last("metadata-log", keep)
	e.set("last-updated-ms", c.timestamp)
	if e.err != nil {
		return nil, e.err
	}
	out, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("encode table metadata: %w", err)
	}
	return out, nil
}

// editor changes keys of a JSON object. The first error sticks.
type editor struct {
	m   map[string]json.RawMessage
	err error
}

func (e *editor) get(key string, into any) {
	if text := e.m[key]; text != nil && string(text) != "null" && e.err == nil {
		if err := json.Unmarshal(text, into); err != nil {
			e.err = fmt.Errorf("table metadata, %s: %w: %w", key, fault.ErrCorrupt, err)
		}
	}
}

func (e *editor) set(key string, v any) {
	text, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("encode %s: %w", key, err)
		return
	}
	e.m[key] = text
}

func (e *editor) appendTo(key string, v any) {
	var list []json.RawMessage
	e.get(key, &list)
	text, err := json.Marshal(v)
	if err != nil && e.err == nil {
		e.err = fmt.Errorf("encode %s: %w", key, err)
		return
	}
	e.set(key, append(list, text))
}

func (e *editor) last(key string, n int) {
	var list []json.RawMessage
	e.get(key, &list)
	if len(list) > n {
		e.set(key, list[len(list)-n:])
	}
}

// NextMetadata answers a new location for the metadata of a table whose present one is at: the version in its name,
// raised (BaseMetastoreTableOperations of Iceberg Java).
func NextMetadata(t *icebergscan.Table, at string) string {
	version := 0
	if m := regexp.MustCompile(`^v?(\d+)[-.]`).FindStringSubmatch(path.Base(at)); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil {
			version = n
		}
	}
	return fmt.Sprintf("%s/%05d-%s.metadata.json", MetadataLocation(t), version+1, uuid.NewString())
}
