package lint

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/readers"
)

// Source streams the live manifest entries of one snapshot. icebergscan.Scan is one.
type Source interface {
	Entries(ctx context.Context, content icebergscan.ManifestContent, want icebergscan.Want) iter.Seq2[*icebergscan.Entry, error]
}

// Config says for whom the table is checked.
type Config struct {
	// Readers that are declared; none = only what goes wrong whoever reads.
	Readers      []*readers.Reader
	AllowPreview bool
	// MaxFiles bounds the files named in a finding; 0 = all.
	MaxFiles int
}

// Run checks a snapshot by its metadata. It holds one record for each position delete and deletion vector. Findings
// come with the worst first. The second answer is what OpenDeletes needs to go on.
func Run(ctx context.Context, t *icebergscan.Table, s *icebergscan.Snapshot, src Source, cfg Config) ([]Finding, *Deletes, error) {
	r := &run{table: t, cfg: cfg, found: newList(cfg.MaxFiles), targets: map[string]*target{}, loose: map[string][]*looseDelete{}, keys: map[string]bool{}, keyColumns: map[int32]bool{}, specs: map[int32]bool{}, formats: map[string]*sample{}}
	if s == nil {
		return nil, &Deletes{}, nil
	}
	for e, err := range src.Entries(ctx, icebergscan.DeletesManifest, icebergscan.Want{AllStats: true}) {
		if err != nil {
			return nil, nil, fmt.Errorf("read delete manifests: %w", err)
		}
		if err := r.deleteFile(e); err != nil {
			return nil, nil, err
		}
	}
	for e, err := range src.Entries(ctx, icebergscan.DataManifest, icebergscan.Want{Stats: slices.Collect(maps.Keys(r.keyColumns))}) {
		if err != nil {
			return nil, nil, fmt.Errorf("read data manifests: %w", err)
		}
		r.dataFile(e)
	}
	r.matchTargets()
	r.looseDeletes()
	r.summary(s)
	r.declared()
	return r.found.sorted(), &r.kept, nil
}

type run struct {
	table *icebergscan.Table
	cfg   Config
	found *list
	kept  Deletes

	actual totals
	// targets are the data files that position deletes and vectors name, by path as written.
	targets map[string]*target
	// loose are position delete files that name no single data file, by partition key.
	loose map[string][]*looseDelete
	// normal are the targets by a form of the path in which spelling is evened out.
	normal map[string][]string

	equality, positions, vectors sample
	global                       sample // equality deletes of unpartitioned specs
	noBounds, zeroDeletes        sample
	keys                         map[string]bool // sets of equality columns
	specs                        map[int32]bool  // of live files
	partitioned                  bool            // some data file is of a partitioned spec

	keyColumns map[int32]bool // of all equality deletes
	// What some readers of equality deletes fail on or get wrong; the files that show it.
	leaking, nullPartitions, nullKeys, nestedKeys, widenedKeys sample
	formats                                                    map[string]*sample // data files by format, in lower case
}

// sample counts files and keeps the first of them.
type sample struct {
	n     int64
	files []string
}

func (s *sample) add(path string, limit int) {
	s.n++
	if limit == 0 || len(s.files) < limit {
		s.files = append(s.files, path)
	}
}

type totals struct {
	dataFiles, records, deleteFiles, positions, keys, size int64
	// content is size with deletion vectors alone instead of the Puffin files that they lie in, as Iceberg Java counts
	// (SnapshotSummary, ScanTaskUtil.contentSizeInBytes).
	content int64
}

// target is a data file that deletes name.
type target struct {
	deletes []pathDelete
	found   bool
	// spelled are live data files whose path is the same but for its spelling.
	spelled string
}

// pathDelete is a position delete file or a vector that is about one data file.
type pathDelete struct {
	path      string
	vector    bool
	seq       int64
	partition string
	specID    int32
}

// looseDelete is a position delete file that may be about several data files.
type looseDelete struct {
	path         string
	seq          int64
	lower, upper string
	bounded      bool
	dataFiles    int64
	prefixOfData bool
}

func (r *run) deleteFile(e *icebergscan.Entry) error {
	r.actual.deleteFiles++
	r.actual.size += e.SizeBytes
	r.actual.content += e.SizeBytes
	if e.DeletionVector() && e.ContentSize >= 0 {
		r.actual.content += e.ContentSize - e.SizeBytes
	}
	r.specs[e.SpecID] = true
	path := string(e.Path)
	if e.Records == 0 {
		r.zeroDeletes.add(path, r.cfg.MaxFiles)
		r.found.add("zero-records", Error, nil, "a delete file that states 0 rows is left out by Iceberg Java as soon as a query has a filter, and by Velox always: its rows come back", path)
	}
	if e.SequenceNumber == 0 {
		r.found.add("sequence-zero", Error, nil, "a delete file of sequence number 0 is dropped by Iceberg Java: its rows come back", path)
	}
	switch {
	case e.Content == icebergscan.EqualityDeletes:
		return r.equalityDelete(e, path)
	case e.DeletionVector():
		r.vector(e, path)
	default:
		r.positionDelete(e, path)
	}
	return nil
}

func (r *run) equalityDelete(e *icebergscan.Entry, path string) error {
	r.actual.keys += e.Records
	r.equality.add(path, r.cfg.MaxFiles)
	spec, err := r.table.Spec(e.SpecID)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if spec.Unpartitioned() {
		r.global.add(path, r.cfg.MaxFiles)
	}
	ids := slices.Clone(e.EqualityIDs)
	slices.Sort(ids)
	r.keys[fmt.Sprint(ids)] = true
	r.keyProperties(e, spec, ids, path)
	if len(ids) == 0 {
		r.found.add("equality-without-columns", Error, nil, "an equality delete file without equality_ids cannot be applied", path)
	}
	for _, id := range ids {
		f, ok := r.table.Field(id)
		switch {
		case !ok:
			r.found.add("equality-column-unknown", Error, nil, fmt.Sprintf("equality column #%d is in no schema of the table: planning fails", id), path)
		case !r.table.Current(id):
			r.found.add("equality-column-dropped", Warning, nil, fmt.Sprintf("equality column %s (#%d) was dropped from the table: readers must still read it from data files, and not all do", f.Name, id), path)
		case strings.Contains(f.Name, "."):
			r.found.add("equality-column-nested", Warning, nil, fmt.Sprintf("equality column %s (#%d) is nested: not all readers resolve it", f.Name, id), path)
		}
	}
	return nil
}

// keyProperties notes what not every reader of equality deletes copes with.
func (r *run) keyProperties(e *icebergscan.Entry, spec *icebergscan.Spec, ids []int32, path string) {
	limit := r.cfg.MaxFiles
	if slices.ContainsFunc(spec.Fields, func(f icebergscan.SpecField) bool { return f.Transform != "void" && !slices.Contains(ids, f.SourceID) }) {
		r.leaking.add(path, limit)
	}
	if nullPartition(e) {
		r.nullPartitions.add(path, limit)
	}
	nested, widened, null := false, false, false
	for _, id := range ids {
		r.keyColumns[id] = true
		f, _ := r.table.Field(id)
		nested = nested || len(f.Path) > 1
		widened = widened || r.table.Widened(id)
		null = null || e.Stats(id).Nulls > 0
	}
	if nested {
		r.nestedKeys.add(path, limit)
	}
	if widened {
		r.widenedKeys.add(path, limit)
	}
	if null {
		r.nullKeys.add(path, limit)
	}
}

func nullPartition(e *icebergscan.Entry) bool {
	return slices.ContainsFunc(e.Partition, func(v icebergscan.Value) bool { return v.Kind == icebergscan.Null })
}

func (r *run) vector(e *icebergscan.Entry, path string) {
	r.actual.positions += e.Records
	r.vectors.add(path, r.cfg.MaxFiles)
	if r.table.FormatVersion < 3 {
		r.found.add("vector-before-v3", Error, nil, fmt.Sprintf("a deletion vector in a table of format version %d: DuckDB, Sail, DataFusion, iceberg-go, ClickHouse and Daft refuse it", r.table.FormatVersion), path)
	}
	if e.ReferencedDataFile == nil || e.ContentOffset < 0 || e.ContentSize < 0 {
		r.found.add("vector-incomplete", Error, nil, "a deletion vector without referenced_data_file, content_offset or content_size_in_bytes cannot be found", path)
		return
	}
	r.kept.vectors = append(r.kept.vectors, vectorFile{path: path, offset: e.ContentOffset, size: e.ContentSize, records: e.Records, target: string(e.ReferencedDataFile)})
	r.named(e, path, string(e.ReferencedDataFile), true)
}

func (r *run) named(e *icebergscan.Entry, path, target string, vector bool) {
	t := r.target(target)
	t.deletes = append(t.deletes, pathDelete{path: path, vector: vector, seq: e.SequenceNumber, partition: string(e.PartitionKey()), specID: e.SpecID})
}

func (r *run) target(path string) *target {
	t, ok := r.targets[path]
	if !ok {
		t = &target{}
		r.targets[path] = t
	}
	return t
}

func (r *run) positionDelete(e *icebergscan.Entry, path string) {
	r.actual.positions += e.Records
	r.positions.add(path, r.cfg.MaxFiles)
	bounds := e.Stats(icebergscan.PathFieldID)
	equal := bounds.Lower != nil && string(bounds.Lower) == string(bounds.Upper)
	if !equal {
		r.noBounds.add(path, r.cfg.MaxFiles)
	}
	if r.table.FormatVersion >= 3 {
		r.found.add("positions-in-v3", Note, nil, "position delete files from before the upgrade to version 3: they are read, but new deletes of the same data file must take them in", path)
	}
	kept := positionFile{path: path, records: e.Records, size: e.SizeBytes, format: strings.ToUpper(string(e.Format)), target: string(e.Target())}
	if bounds.Lower != nil && bounds.Upper != nil {
		kept.lower, kept.upper, kept.bounded = string(bounds.Lower), string(bounds.Upper), true
	}
	r.kept.positions = append(r.kept.positions, kept)
	if e.ReferencedDataFile != nil && equal && string(e.ReferencedDataFile) != string(bounds.Lower) {
		r.found.add("reference-against-bounds", Error, nil, "referenced_data_file is not the path in the bounds: readers that go by one of them delete in another file than readers that go by the other", path)
	}
	if target := e.Target(); target != nil {
		r.named(e, path, string(target), false)
		return
	}
	key := string(e.PartitionKey())
	r.loose[key] = append(r.loose[key], &looseDelete{path: path, seq: e.SequenceNumber, lower: kept.lower, upper: kept.upper, bounded: kept.bounded})
}

func (r *run) dataFile(e *icebergscan.Entry) {
	r.actual.dataFiles++
	r.actual.records += e.Records
	r.actual.size += e.SizeBytes
	r.actual.content += e.SizeBytes
	r.specs[e.SpecID] = true
	if spec, err := r.table.Spec(e.SpecID); err == nil && !spec.Unpartitioned() {
		r.partitioned = true
	}
	if e.Records == 0 {
		r.found.add("zero-records", Note, nil, "a data file that states 0 rows is left out by Iceberg Java as soon as a query has a filter", string(e.Path))
	}
	if t, ok := r.targets[string(e.Path)]; ok {
		t.found = true
		r.matched(e, t)
	}
	r.dataProperties(e)
	r.keepLive(e)
	r.spelling(e)
	for _, d := range r.loose[string(e.PartitionKey())] {
		if d.seq < e.SequenceNumber {
			continue
		}
		if d.bounded && !d.mayName(string(e.Path)) {
			continue
		}
		d.dataFiles++
	}
}

// dataProperties notes what not every reader copes with.
func (r *run) dataProperties(e *icebergscan.Entry) {
	format, path, limit := strings.ToLower(string(e.Format)), string(e.Path), r.cfg.MaxFiles
	if r.formats[format] == nil {
		r.formats[format] = &sample{}
	}
	r.formats[format].add(path, limit)
	if nullPartition(e) {
		r.nullPartitions.add(path, limit)
	}
	for id := range r.keyColumns {
		if e.Stats(id).Nulls > 0 {
			r.nullKeys.add(path, limit)
			return
		}
	}
}

// keepLive keeps the record counts of data files that rows of delete files may name.
func (r *run) keepLive(e *icebergscan.Entry) {
	_, named := r.targets[string(e.Path)]
	if !named && len(r.loose[string(e.PartitionKey())]) == 0 {
		return
	}
	if r.kept.live == nil {
		r.kept.live = map[string]int64{}
	}
	r.kept.live[string(e.Path)] = e.Records
}

// mayName reports whether a path lies in the bounds. A bound that was cut short is still a bound.
func (d *looseDelete) mayName(path string) bool {
	if d.lower != path && strings.HasPrefix(path, d.lower) {
		d.prefixOfData = true
	}
	return path >= d.lower && path <= d.upper
}

// matched checks the deletes that name a live data file.
func (r *run) matched(e *icebergscan.Entry, t *target) {
	vectors, positions := 0, 0
	for _, d := range t.deletes {
		if d.partition != string(e.PartitionKey()) || d.specID != e.SpecID {
			r.found.add("partition-mismatch", Error, nil, "a delete file is in another partition than its data file: Iceberg Java 1.12 fails, older ones and others apply it or do not", d.path)
		}
		if d.vector {
			vectors++
			if d.seq < e.SequenceNumber {
				r.found.add("vector-older-than-data", Error, nil, "a deletion vector with a lower sequence number than its data file: Iceberg Java fails", d.path)
			}
			continue
		}
		positions++
		if d.seq < e.SequenceNumber {
			r.olderThanData(d.path)
		}
	}
	if vectors > 1 {
		for _, d := range t.deletes {
			if d.vector {
				r.found.add("several-vectors", Error, nil, "several deletion vectors for one data file: Iceberg Java, Trino, DuckDB and iceberg-go fail", d.path)
			}
		}
	}
	if vectors > 0 && positions > 0 {
		for _, d := range t.deletes {
			if !d.vector {
				r.found.add("positions-beside-vector", Warning, nil, "position deletes beside a deletion vector of the same data file: Iceberg Java, Trino and iceberg-go ignore them, PyIceberg applies both", d.path)
			}
		}
	}
}

func (r *run) olderThanData(path string) {
	text := "a position delete with a lower sequence number than its data file does not apply; DuckDB 1.5.5 applies it"
	if names := r.among("duckdb"); len(names) > 0 {
		r.found.add("positions-older-than-data", Error, names, text, path)
		return
	}
	r.found.add("positions-older-than-data", Warning, nil, text, path)
}

// among answers which of the names are declared.
func (r *run) among(names ...string) []string {
	var out []string
	for _, d := range r.cfg.Readers {
		if slices.Contains(names, d.Name) {
			out = append(out, d.Name)
		}
	}
	return out
}
