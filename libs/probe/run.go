package probe

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Source streams the live manifest entries of one snapshot, as often as it is asked. icebergscan.Scan is one.
type Source interface {
	Entries(ctx context.Context, content icebergscan.ManifestContent, want icebergscan.Want) iter.Seq2[*icebergscan.Entry, error]
}

// Config bounds a run.
type Config struct {
	// MaxDeletes is how many equality delete files are held at once, some 200 bytes each. Beyond it the table is
	// read in several passes. 0 = DefaultMaxDeletes.
	MaxDeletes int
	// Thresholds are the numbers of delete files that Report.FilesByDeletes counts for, ascending. nil = 1, 2, 5,
	// 10, 20, 50, 100.
	Thresholds []int64
}

// DefaultMaxDeletes is some 50 MB.
const DefaultMaxDeletes = 250_000

// Run measures. The caller fills in what only it knows of the report: name, time, ref, snapshot, what was read.
func Run(ctx context.Context, t *icebergscan.Table, src Source, cfg Config) (*Report, error) {
	if cfg.MaxDeletes <= 0 {
		cfg.MaxDeletes = DefaultMaxDeletes
	}
	if cfg.Thresholds == nil {
		cfg.Thresholds = []int64{1, 2, 5, 10, 20, 50, 100}
	}
	r := &run{
		table: t, src: src, cfg: cfg,
		groups: map[string]*group{}, byDeletes: make([]int64, len(cfg.Thresholds)),
		keyColumns: map[string]*KeyColumns{},
	}
	passes := 1
	for pass := 0; pass < passes; pass++ {
		if err := r.deletes(ctx, pass); err != nil {
			return nil, fmt.Errorf("read delete manifests: %w", err)
		}
		if pass == 0 {
			r.seal()
			passes = max(1, int((r.deleteFiles+int64(cfg.MaxDeletes)-1)/int64(cfg.MaxDeletes)))
		}
		if err := r.data(ctx, pass, passes); err != nil {
			return nil, fmt.Errorf("read data manifests: %w", err)
		}
		r.collect()
	}
	out := r.report()
	out.Passes = passes
	return out, nil
}

type run struct {
	table *icebergscan.Table
	src   Source
	cfg   Config

	groups map[string]*group // by partition key
	global *group            // nil = there are no global deletes
	// columns are the key columns of all equality deletes that have statistics.
	columns     []icebergscan.Field
	keyColumns  map[string]*KeyColumns
	deleteFiles int64 // equality delete files

	touched, touchedPruned     int64 // data files
	worstKeys, worstKeysPruned int64
	byDeletes                  []int64
	perFile                    []fileTally // only if there are several passes
	scratch                    []column
	scratchKey                 []byte
	withoutReals               bool // go by no bounds of float and double columns
}

// fileTally is what earlier passes found for a data file.
type fileTally struct {
	ownFiles, globalFiles int32
	ownKeys, globalKeys   int64
}

// group is a partition of one spec, or all global deletes.
type group struct {
	Partition
	levels []level // by falling sequence number once sealed
	bySeq  map[int64]int
	sets   []*keyset
	setOf  map[string]*keyset
}

// level is all equality delete files of a group with one sequence number: without bounds they are all alike.
type level struct {
	seq         int64
	files, keys int64
	// upTo counts the data files to which this level applies and no older one does.
	upTo int64
	// prefixFiles and prefixKeys are sums over this level and the newer ones.
	prefixFiles, prefixKeys int64
}

// deletes reads the delete manifests. The first pass counts; every pass holds its share of equality deletes.
func (r *run) deletes(ctx context.Context, pass int) error {
	from := int64(pass) * int64(r.cfg.MaxDeletes)
	for _, g := range r.all() {
		g.sets, g.setOf = nil, map[string]*keyset{}
	}
	var n int64
	for e, err := range r.src.Entries(ctx, icebergscan.DeletesManifest, icebergscan.Want{AllStats: true}) {
		if err != nil {
			return err
		}
		if e.Content != icebergscan.EqualityDeletes {
			if pass > 0 {
				continue
			}
			if err := r.positions(e); err != nil {
				return err
			}
			continue
		}
		g, err := r.groupOfDeletes(e)
		if err != nil {
			return err
		}
		if pass == 0 {
			g.count(e)
			r.countColumns(e)
			r.deleteFiles++
		}
		if n >= from && n < from+int64(r.cfg.MaxDeletes) {
			r.hold(g, e)
		}
		n++
	}
	for _, g := range r.all() {
		for _, k := range g.sets {
			k.seal()
		}
	}
	return nil
}

// all answers all groups, in no order.
func (r *run) all() []*group {
	out := make([]*group, 0, len(r.groups)+1)
	for _, g := range r.groups {
		out = append(out, g)
	}
	if r.global != nil {
		out = append(out, r.global)
	}
	return out
}

func (r *run) positions(e *icebergscan.Entry) error {
	g, err := r.groupOfPartition(e)
	if err != nil {
		return err
	}
	if e.DeletionVector() {
		g.DeletionVectors++
		g.VectorPositions += e.Records
		return nil
	}
	g.PositionDeleteFiles++
	g.DeletedPositions += e.Records
	return nil
}

func (r *run) groupOfPartition(e *icebergscan.Entry) (*group, error) {
	if g, ok := r.groups[string(e.PartitionKey())]; ok {
		return g, nil
	}
	spec, err := r.table.Spec(e.SpecID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	g := newGroup()
	g.SpecID, g.Path = e.SpecID, r.table.PartitionPath(spec, e.Partition)
	r.groups[string(e.PartitionKey())] = g
	return g, nil
}

func newGroup() *group { return &group{bySeq: map[int64]int{}, setOf: map[string]*keyset{}} }

func (r *run) groupOfDeletes(e *icebergscan.Entry) (*group, error) {
	spec, err := r.table.Spec(e.SpecID)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.Path, err)
	}
	if !spec.Unpartitioned() {
		return r.groupOfPartition(e)
	}
	if r.global == nil {
		r.global = newGroup()
		r.global.Global, r.global.SpecID = true, e.SpecID
	}
	if r.global.SpecID != e.SpecID {
		r.global.SpecID = -1
	}
	return r.global, nil
}

// count adds an equality delete file to its group's figures.
func (g *group) count(e *icebergscan.Entry) {
	g.EqualityDeleteFiles++
	g.EqualityDeleteBytes += e.SizeBytes
	g.DeleteKeys = add(g.DeleteKeys, e.Records)
	at, ok := g.bySeq[e.SequenceNumber]
	if !ok {
		at = len(g.levels)
		g.levels = append(g.levels, level{seq: e.SequenceNumber})
		g.bySeq[e.SequenceNumber] = at
	}
	g.levels[at].files++
	g.levels[at].keys = add(g.levels[at].keys, e.Records)
}

func (r *run) countColumns(e *icebergscan.Entry) {
	r.scratchKey = idKey(r.scratchKey[:0], e.EqualityIDs)
	k, ok := r.keyColumns[string(r.scratchKey)]
	if !ok {
		k = &KeyColumns{FieldIDs: slices.Clone(e.EqualityIDs)}
		slices.Sort(k.FieldIDs)
		for _, id := range k.FieldIDs {
			name := fmt.Sprintf("#%d", id)
			if f, ok := r.table.Field(id); ok {
				name = f.Name
			}
			k.Names = append(k.Names, name)
		}
		r.keyColumns[string(r.scratchKey)] = k
	}
	k.Files++
	k.Keys = add(k.Keys, e.Records)
}

// idKey is equal for equal sets of ids.
func idKey(to []byte, ids []int32) []byte {
	for i, id := range ids {
		to = append(to, byte(id>>24), byte(id>>16), byte(id>>8), byte(id))
		for j := i; j > 0 && bytes.Compare(to[4*j:4*j+4], to[4*j-4:4*j]) < 0; j-- {
			for b := range 4 {
				to[4*j+b], to[4*j-4+b] = to[4*j-4+b], to[4*j+b]
			}
		}
	}
	return to
}

// hold keeps an equality delete file with the bounds of its key columns.
func (r *run) hold(g *group, e *icebergscan.Entry) {
	r.scratchKey = idKey(r.scratchKey[:0], e.EqualityIDs)
	k, ok := g.setOf[string(r.scratchKey)]
	if !ok {
		k = &keyset{}
		for _, id := range e.EqualityIDs {
			if at := r.column(id); at >= 0 {
				k.columns = append(k.columns, at)
			}
		}
		g.setOf[string(r.scratchKey)] = k
		g.sets = append(g.sets, k)
	}
	cols := make([]column, 0, len(k.columns))
	for _, at := range k.columns {
		f := r.columns[at]
		c := columnOf(f, e.Stats(f.ID))
		c.lower, c.upper = c.lower.own(), c.upper.own()
		cols = append(cols, c)
	}
	k.add(e.SequenceNumber, e.Records, cols)
}

// column answers the place of a key column in r.columns; -1 if it has no statistics to go by.
func (r *run) column(id int32) int {
	if at := slices.IndexFunc(r.columns, func(f icebergscan.Field) bool { return f.ID == id }); at >= 0 {
		return at
	}
	f, ok := r.table.Field(id)
	if !ok || !f.Primitive() || r.withoutReals && (f.Type == "float" || f.Type == "double") {
		return -1
	}
	r.columns = append(r.columns, f)
	return len(r.columns) - 1
}

// seal orders the levels after the first pass over the deletes.
func (r *run) seal() {
	for _, g := range r.all() {
		slices.SortFunc(g.levels, func(a, b level) int { return cmp.Compare(b.seq, a.seq) })
		var files, keys int64
		for i := range g.levels {
			l := &g.levels[i]
			files, keys = files+l.files, add(keys, l.keys)
			l.prefixFiles, l.prefixKeys = files, keys
		}
		g.bySeq = nil
	}
}

// plain counts a data file of sequence number seq for the group's deletes: how many keys it is held against.
func (g *group) plain(seq int64) (keys int64) {
	n, _ := slices.BinarySearchFunc(g.levels, seq, func(l level, seq int64) int {
		if l.seq > seq {
			return -1
		}
		return 1
	})
	if n == 0 {
		return 0
	}
	l := &g.levels[n-1]
	l.upTo++
	g.Plain.DataFilesTouched++
	g.Plain.WorstKeys = max(g.Plain.WorstKeys, l.prefixKeys)
	return l.prefixKeys
}

// data streams the data manifests past the deletes that are held.
func (r *run) data(ctx context.Context, pass, passes int) error {
	want := icebergscan.Want{}
	for _, f := range r.columns {
		want.Stats = append(want.Stats, f.ID)
	}
	n := 0
	for e, err := range r.src.Entries(ctx, icebergscan.DataManifest, want) {
		if err != nil {
			return err
		}
		g, err := r.groupOfPartition(e)
		if err != nil {
			return err
		}
		if pass == 0 {
			r.dataFile(g, e)
		}
		r.scratch = fileColumns(e, r.columns, r.scratch)
		var t fileTally
		t.ownFiles, t.ownKeys = g.pruned(e.SequenceNumber, r.scratch)
		if r.global != nil {
			t.globalFiles, t.globalKeys = r.global.pruned(e.SequenceNumber, r.scratch)
		}
		if passes > 1 {
			if pass == 0 {
				r.perFile = append(r.perFile, fileTally{})
			}
			if n >= len(r.perFile) {
				return fmt.Errorf("the snapshot has more data files than in the pass before")
			}
			before := &r.perFile[n]
			t.ownFiles, t.ownKeys = t.ownFiles+before.ownFiles, add(t.ownKeys, before.ownKeys)
			t.globalFiles, t.globalKeys = t.globalFiles+before.globalFiles, add(t.globalKeys, before.globalKeys)
			*before = t
		}
		if pass == passes-1 {
			r.tally(g, t)
		}
		n++
	}
	return nil
}

// dataFile counts a data file for what does not depend on bounds.
func (r *run) dataFile(g *group, e *icebergscan.Entry) {
	g.DataFiles++
	g.DataRecords += e.Records
	keys := g.plain(e.SequenceNumber)
	if r.global != nil {
		global := r.global.plain(e.SequenceNumber)
		g.GlobalUnits = add(g.GlobalUnits, global)
		keys = add(keys, global)
	}
	if keys > 0 {
		r.worstKeys = max(r.worstKeys, keys)
	}
	if g.applies(e.SequenceNumber) || r.global != nil && r.global.applies(e.SequenceNumber) {
		r.touched++
	}
}

// applies reports whether an equality delete of the group is newer than seq.
func (g *group) applies(seq int64) bool { return len(g.levels) > 0 && g.levels[0].seq > seq }

func (g *group) pruned(seq int64, file []column) (files int32, keys int64) {
	for _, k := range g.sets {
		f, n := k.hit(seq, file)
		files, keys = files+int32(f), add(keys, n)
	}
	return files, keys
}

// tally counts a data file by what the deletes of all passes may do to it.
func (r *run) tally(g *group, t fileTally) {
	if t.ownFiles > 0 {
		g.Pruned.DataFilesTouched++
		g.Pruned.WorstKeys = max(g.Pruned.WorstKeys, t.ownKeys)
	}
	if t.globalFiles > 0 {
		r.global.Pruned.DataFilesTouched++
		r.global.Pruned.WorstKeys = max(r.global.Pruned.WorstKeys, t.globalKeys)
		g.GlobalUnitsPruned = add(g.GlobalUnitsPruned, t.globalKeys)
	}
	files := int64(t.ownFiles) + int64(t.globalFiles)
	if files == 0 {
		return
	}
	r.touchedPruned++
	r.worstKeysPruned = max(r.worstKeysPruned, add(t.ownKeys, t.globalKeys))
	for i, at := range r.cfg.Thresholds {
		if files >= at {
			r.byDeletes[i]++
		}
	}
}

// collect sums up the pairs of the deletes that are held.
func (r *run) collect() {
	for _, g := range r.all() {
		for _, k := range g.sets {
			k.fanouts(func(keys, fanout int64) {
				g.Pruned.ProbeUnits = add(g.Pruned.ProbeUnits, mul(keys, fanout))
				g.Pruned.WorstFanout = max(g.Pruned.WorstFanout, fanout)
			})
		}
	}
}

// add and mul stop at the largest int64. Their arguments are not negative.
func add(a, b int64) int64 {
	if s := a + b; s >= 0 {
		return s
	}
	return math.MaxInt64
}

func mul(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
