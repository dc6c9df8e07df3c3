package icebergcommit

import (
	"maps"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// counts are what the summary of the snapshot says (SnapshotSummary of Iceberg Java).
type counts struct {
	added, removed tally
}

type tally struct {
	files, positionFiles, vectors, equalityFiles, positions, keys, bytes int64
	partitions                                                           map[string]bool
}

func (t *tally) partition(key string) {
	if t.partitions == nil {
		t.partitions = map[string]bool{}
	}
	t.partitions[key] = true
}

func (c *counts) add(f *DeleteFile) {
	c.added.files++
	c.added.positions += f.Records
	if f.Format == iceberg.Puffin {
		c.added.vectors++
		c.added.bytes += f.ContentSize
	} else {
		c.added.positionFiles++
		c.added.bytes += f.Size
	}
	c.added.partition(strconv.Itoa(int(f.SpecID)) + "\x00" + string(f.Partition))
}

func (c *counts) remove(e *icebergscan.Entry) {
	c.removed.files++
	size := e.SizeBytes
	switch {
	case e.Content == icebergscan.EqualityDeletes:
		c.removed.equalityFiles++
		c.removed.keys += e.Records
	case e.DeletionVector():
		c.removed.vectors++
		c.removed.positions += e.Records
		size = e.ContentSize
	default:
		c.removed.positionFiles++
		c.removed.positions += e.Records
	}
	c.removed.bytes += size
	_, tuple, _, err := e.Encoded()
	if err == nil {
		c.removed.partition(strconv.Itoa(int(e.SpecID)) + "\x00" + string(tuple))
	}
}

// summary makes the snapshot's summary: counts of the change, and totals where the parent has them.
func (s *staging) summary() map[string]string {
	out := map[string]string{"operation": "overwrite"}
	if s.change.Operation != "" {
		out["operation"] = s.change.Operation
	}
	put := func(name string, n int64) {
		if n != 0 {
			out[name] = strconv.FormatInt(n, 10)
		}
	}
	a, r := &s.counts.added, &s.counts.removed
	put("added-delete-files", a.files)
	put("added-position-delete-files", a.positionFiles)
	put("added-dvs", a.vectors)
	put("added-position-deletes", a.positions)
	put("added-files-size", a.bytes)
	put("removed-delete-files", r.files)
	put("removed-position-delete-files", r.positionFiles)
	put("removed-dvs", r.vectors)
	put("removed-equality-delete-files", r.equalityFiles)
	put("removed-position-deletes", r.positions)
	put("removed-equality-deletes", r.keys)
	put("removed-files-size", r.bytes)
	changed := map[string]bool{}
	maps.Copy(changed, a.partitions)
	maps.Copy(changed, r.partitions)
	out["changed-partition-count"] = strconv.Itoa(len(changed))
	before := s.change.Parent.Summary
	for name, by := range map[string]int64{
		"total-data-files": 0, "total-records": 0,
		"total-delete-files":     a.files - r.files,
		"total-position-deletes": a.positions - r.positions,
		"total-equality-deletes": a.keys - r.keys,
		"total-files-size":       a.bytes - r.bytes,
	} {
		total, err := strconv.ParseInt(strings.TrimSpace(before[name]), 10, 64)
		if err == nil && total+by >= 0 {
			out[name] = strconv.FormatInt(total+by, 10)
		}
	}
	maps.Copy(out, s.change.Summary)
	return out
}
