package drain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/google/uuid"

	"github.com/frazil-io/frazil/libs/datafile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/posdelete"
	"github.com/frazil-io/frazil/libs/puffin"
)

// puffinBytes is how long a Puffin file becomes, about.
const puffinBytes = 16 << 20

// staged is what is written for one try to commit.
type staged struct {
	d       *drainer
	p       *plan
	written []string
	add     []icebergcommit.DeleteFile
	remove  []icebergcommit.Removal
	removed map[icebergcommit.Removal]bool // those in remove
	merged  int64
	bytes   int64
	// mergedAway are position delete files all of whose rows are among the positions.
	mergedAway []*positionDeletes

	vectors puffin.Writer
	pending []icebergcommit.DeleteFile // of the open Puffin file
}

// commit writes delete files and commits them. What was written for a commit that did not happen is removed. Errors:
// fault.ErrConflict.
func (d *drainer) commit(ctx context.Context, p *plan, found *positions, mergedAway ...*positionDeletes) error {
	s := &staged{d: d, p: p, mergedAway: mergedAway, removed: map[icebergcommit.Removal]bool{}}
	c, err := s.stage(ctx, found)
	if err == nil {
		err = d.cfg.Fail("commit")
	}
	if err == nil {
		err = d.publish(ctx, p.head.table, c)
	} else if !errors.Is(err, ErrCrash) {
		s.discard(ctx)
		return err
	}
	if err != nil {
		if refused(err) { // else what was written may be of the table by now, or may still be
			s.discard(ctx)
		}
		return err
	}
	r := d.report
	r.Snapshots = append(r.Snapshots, c.SnapshotID)
	r.DeleteFilesAdded += int64(len(s.add))
	r.DeleteFilesMerged += s.merged
	r.BytesWritten += s.bytes
	return nil
}

// ErrCrash marks an error of Config.Fail that stands for the end of the process: nothing is cleared up after it.
var ErrCrash = errors.New("crash")

// refused reports whether a commit certainly did not happen and will not.
func refused(err error) bool {
	for _, kind := range []error{fault.ErrConflict, fault.ErrInvalid, fault.ErrDenied, fault.ErrUnauthenticated, fault.ErrNotFound, fault.ErrUnsupported} {
		if errors.Is(err, kind) {
			return !errors.Is(err, errUnsure)
		}
	}
	return false
}

// errUnsure marks a conflict of a commit that the catalog has not answered: it is tried anew, and what was written for
// it stays.
var errUnsure = errors.New("no answer from the catalog")

// publish tells the catalog. If it does not know what became of a commit, the table says: the same commit may be sent
// again, because it holds for one parent only.
func (d *drainer) publish(ctx context.Context, t *Table, c *icebergcommit.Commit) error {
	for try := 0; ; try++ {
		err := d.cat.Commit(ctx, t, c)
		if err == nil {
			return d.cfg.Fail("committed")
		}
		if ctx.Err() != nil {
			return fmt.Errorf("commit: %w", err)
		}
		now, loadErr := d.cat.Load(ctx)
		if loadErr != nil {
			if errors.Is(err, fault.ErrConflict) {
				return fmt.Errorf("commit: %w", err)
			}
			return fmt.Errorf("commit, of which it is not known whether it happened: %w", errors.Join(err, loadErr))
		}
		if _, have := now.Meta.Snapshot(c.SnapshotID); have == nil {
			return d.cfg.Fail("committed")
		}
		head, headErr := now.Meta.Head(c.Branch)
		moved := headErr != nil || head == nil || head.ID != c.ParentID || now.Meta.LastSequenceNumber != t.Meta.LastSequenceNumber
		switch {
		case refused(err) && moved:
			return fmt.Errorf("commit: %w: %w", fault.ErrConflict, err)
		case moved:
			return fmt.Errorf("commit: %w: %w: %w", fault.ErrConflict, errUnsure, err)
		case refused(err), try == 3:
			return fmt.Errorf("commit: %w", err)
		}
		d.cfg.Log.Warn("a commit is sent again", "err", err)
	}
}

// stage writes delete files, manifests and the manifest list.
func (s *staged) stage(ctx context.Context, found *positions) (*icebergcommit.Commit, error) {
	h := s.p.head
	hit := map[string]*target{}
	for _, t := range s.p.targets {
		if found.count(t.path) > 0 {
			hit[t.path] = t
		}
	}
	old, err := s.existing(ctx, hit)
	if err != nil {
		return nil, fmt.Errorf("read deletes by position: %w", err)
	}
	s.leaveOut(old)
	m := newMeter(s.d, "commit", int64(len(hit)))
	for _, t := range s.p.targets {
		if hit[t.path] == nil {
			continue
		}
		set, err := found.get(t.path)
		if err != nil {
			return nil, err
		}
		if err := s.target(ctx, t, set, old[t.path]); err != nil {
			return nil, err
		}
		m.add(1)
	}
	if err := s.flush(ctx); err != nil {
		return nil, err
	}
	for _, e := range s.p.batch {
		s.remove = append(s.remove, icebergcommit.Removal{Manifest: e.manifest, Path: e.path, Offset: icebergscan.Absent})
	}
	if err := s.d.cfg.Fail("stage"); err != nil {
		return nil, err
	}
	operation := "overwrite"
	if len(s.p.batch) == 0 { // no more than what other writers do that rewrite position deletes
		operation = "replace"
	}
	summary := map[string]string{Mark: "1"}
	maps.Copy(summary, s.d.cfg.Summary)
	c, err := icebergcommit.Stage(ctx, h.table.Store, h.table.Base, icebergcommit.Change{
		Branch: s.d.cfg.Branch, Parent: h.snapshot, Manifests: h.scan.Manifests(),
		Remove: s.remove, Add: s.add, Operation: operation, Summary: summary, Now: s.d.cfg.Now(),
	})
	if c != nil {
		s.written = append(s.written, c.Written...)
	}
	return c, err
}

// discard removes what was written for a commit that will not happen. It goes on after the end of ctx.
func (s *staged) discard(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	for _, location := range s.written {
		if err := s.p.head.table.Store.Remove(ctx, location); err != nil {
			s.d.cfg.Log.Warn("a file of a lost commit stays in the store", "location", location, "err", err)
		}
	}
}

// already is what deletes rows of a data file by position now.
type already struct {
	files  []positionFile // that apply to it, or may
	vector *vector
}

type positionFile struct {
	manifest, path, format string
	alone                  bool // it is about this data file and no other
}

type vector struct {
	manifest, path string
	offset, size   int64
}

// existing finds the position deletes and vectors that may apply to the targets that are hit.
func (s *staged) existing(ctx context.Context, hit map[string]*target) (map[string]*already, error) {
	out := make(map[string]*already, len(hit))
	byGroup := map[string][]*target{}
	for path, t := range hit {
		out[path] = &already{}
		byGroup[t.group] = append(byGroup[t.group], t)
	}
	want := icebergscan.Want{Stats: []int32{icebergscan.PathFieldID}}
	for e, err := range s.p.head.scan.Entries(ctx, icebergscan.DeletesManifest, want) {
		if err != nil {
			return nil, err
		}
		if e.Content != icebergscan.PositionDeletes {
			continue
		}
		only := string(e.Target())
		if e.DeletionVector() {
			if a := out[only]; a != nil {
				if a.vector != nil {
					return nil, fmt.Errorf("%s has several deletion vectors, which no reader takes: %w", only, fault.ErrCorrupt)
				}
				a.vector = &vector{e.Manifest.Path, string(e.Path), e.ContentOffset, e.ContentSize}
			}
			continue
		}
		f := positionFile{manifest: e.Manifest.Path, path: string(e.Path), format: string(e.Format), alone: only != ""}
		if f.alone {
			if a := out[only]; a != nil && e.SequenceNumber >= hit[only].seq {
				a.files = append(a.files, f)
			}
			continue
		}
		lower, upper := e.Stats(icebergscan.PathFieldID).Lower, e.Stats(icebergscan.PathFieldID).Upper
		for _, t := range byGroup[string(e.PartitionKey())] {
			if e.SequenceNumber < t.seq || lower != nil && bytes.Compare([]byte(t.path), lower) < 0 || outside(t.path, upper) {
				continue
			}
			out[t.path].files = append(out[t.path].files, f)
		}
	}
	return out, nil
}

// outside reports whether a path lies beyond an upper limit, which may have been cut short without being raised.
func outside(path string, upper []byte) bool {
	if upper == nil {
		return false
	}
	return path > string(upper) && (len(path) < len(upper) || path[:len(upper)] != string(upper))
}

// leaveOut removes the files that are merged away from what applies beside the positions, and from the table.
func (s *staged) leaveOut(old map[string]*already) {
	if len(s.mergedAway) == 0 {
		return
	}
	gone := map[string]bool{}
	for _, f := range s.mergedAway {
		gone[f.path] = true
		s.replace([]positionFile{f.positionFile})
	}
	for _, a := range old {
		a.files = slices.DeleteFunc(a.files, func(f positionFile) bool { return gone[f.path] })
	}
}

// target writes what deletes the rows of one data file.
func (s *staged) target(ctx context.Context, t *target, set *roaring.Bitmap, old *already) error {
	hits := set.GetCardinality()
	if s.p.head.table.Meta.FormatVersion >= 3 {
		return s.vectorOf(ctx, t, set, old)
	}
	// Files about this data file alone are merged; others stay and go on to apply.
	before := roaring.New()
	var merged []positionFile
	for _, f := range old.files {
		if f.alone {
			if err := s.readPositions(ctx, f, t, before); err != nil {
				return err
			}
			merged = append(merged, f)
		}
	}
	if before.AndCardinality(set) == hits && len(s.mergedAway) == 0 {
		return nil // all are deleted already
	}
	set.Or(before)
	s.replace(merged)
	file, err := posdelete.New(t.path, set)
	if err != nil {
		return fmt.Errorf("position deletes of %s: %w", t.path, err)
	}
	var body bytes.Buffer
	if err := file.WriteRange(&body, 0, file.Size()); err != nil {
		return fmt.Errorf("position deletes of %s: %w", t.path, err)
	}
	f := s.deleteFile(t, int64(set.GetCardinality()))
	f.Path, f.Format, f.Size = s.newPath("-deletes.parquet"), iceberg.Parquet, file.Size()
	s.add = append(s.add, f)
	return s.write(ctx, f.Path, body.Bytes())
}

func (s *staged) vectorOf(ctx context.Context, t *target, set *roaring.Bitmap, old *already) error {
	hits := set.GetCardinality()
	before := roaring.New()
	if old.vector != nil && len(s.p.batch) == 0 {
		return nil // beside a vector readers ignore position delete files: what these say must not begin to count
	}
	if old.vector != nil {
		var err error
		if before, err = s.readVector(ctx, old.vector); err != nil {
			return err
		}
		if before.AndCardinality(set) == hits {
			return nil
		}
		s.remove = append(s.remove, icebergcommit.Removal{Manifest: old.vector.manifest, Path: old.vector.path, Offset: old.vector.offset})
		s.merged++
	}
	// A vector makes readers ignore position delete files, so it takes over all that apply. With a vector there they
	// are ignored already.
	if old.vector == nil {
		for _, f := range old.files {
			if err := s.readPositions(ctx, f, t, before); err != nil {
				return err
			}
		}
	}
	s.replace(slices.DeleteFunc(slices.Clone(old.files), func(f positionFile) bool { return !f.alone }))
	set.Or(before)
	offset, size, err := s.vectors.Add(t.path, set)
	if err != nil {
		return err
	}
	f := s.deleteFile(t, int64(set.GetCardinality()))
	f.Format, f.ContentOffset, f.ContentSize = iceberg.Puffin, offset, size
	s.pending = append(s.pending, f)
	if s.vectors.Len() > puffinBytes {
		return s.flush(ctx)
	}
	return nil
}

// flush writes the open Puffin file.
func (s *staged) flush(ctx context.Context) error {
	if len(s.pending) == 0 {
		return nil
	}
	body, err := s.vectors.Bytes()
	if err != nil {
		return err
	}
	path := s.newPath("-deletes.puffin")
	for _, f := range s.pending {
		f.Path, f.Size = path, int64(len(body))
		s.add = append(s.add, f)
	}
	s.pending, s.vectors = nil, puffin.Writer{}
	return s.write(ctx, path, body)
}

func (s *staged) replace(files []positionFile) {
	for _, f := range files {
		r := icebergcommit.Removal{Manifest: f.manifest, Path: f.path, Offset: icebergscan.Absent}
		if !s.removed[r] {
			s.remove, s.removed[r] = append(s.remove, r), true
			s.merged++
		}
	}
}

func (s *staged) deleteFile(t *target, records int64) icebergcommit.DeleteFile {
	return icebergcommit.DeleteFile{
		SpecID: t.spec, Partition: t.partition, PartitionSchema: t.partitionSchema, Values: t.values,
		Referenced: t.path, Records: records,
	}
}

func (s *staged) newPath(suffix string) string {
	return icebergcommit.DataLocation(s.p.head.table.Meta) + "/" + uuid.NewString() + suffix
}

func (s *staged) write(ctx context.Context, location string, body []byte) error {
	if err := s.d.cfg.Fail("write"); err != nil {
		return err
	}
	s.written = append(s.written, location)
	s.bytes += int64(len(body))
	if err := s.p.head.table.Store.Write(ctx, location, body); err != nil {
		return fmt.Errorf("write %s: %w", location, err)
	}
	return nil
}

// readPositions adds the positions that a file has of a data file.
func (s *staged) readPositions(ctx context.Context, f positionFile, t *target, to *roaring.Bitmap) error {
	beyond := false
	err := s.d.readFile(ctx, s.p.head.table.Store, f.path, f.format, func(src datafile.Source) error {
		return datafile.Positions(ctx, src, func(path []byte, pos int64) {
			if string(path) != t.path {
				return
			}
			if pos < 0 || pos >= t.records {
				beyond = true // it deletes nothing
				return
			}
			to.Add(uint32(pos))
		})
	})
	if beyond {
		s.d.cfg.Log.Warn("a position delete file has positions beyond the rows of its data file", "file", f.path)
	}
	return err
}

func (s *staged) readVector(ctx context.Context, v *vector) (*roaring.Bitmap, error) {
	var set *roaring.Bitmap
	err := s.d.readFile(ctx, s.p.head.table.Store, v.path, "PUFFIN", func(src datafile.Source) error {
		if v.offset < 0 || v.size < 0 || v.offset+v.size > src.Size {
			return fmt.Errorf("the deletion vector at %d of %d bytes is not in %s: %w", v.offset, v.size, v.path, fault.ErrCorrupt)
		}
		blob := make([]byte, v.size)
		if n, err := src.Reader.ReadAt(blob, v.offset); int64(n) < v.size {
			return fmt.Errorf("read %s: %w", v.path, err)
		}
		var err error
		if set, err = puffin.ReadVector(blob); err != nil {
			return fmt.Errorf("%s: %w", v.path, err)
		}
		return nil
	})
	return set, err
}
