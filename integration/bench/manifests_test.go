package bench

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
)

const (
	indexKeys   = 10_000_000
	probeRounds = 5
	probeRepeat = 3
	// The entries of one commit, and its equality deletes where there are few.
	commitEntries = 2000
	fewDeletes    = 20
)

// benchRowIndex is part (n): what the index of a drain takes on disk.
func benchRowIndex(t *testing.T, _ *field, r *report) {
	r.part("n", fmt.Sprintf("the index of a drain: %d M random keys of %d data files", indexKeys/1_000_000, indexFiles))
	for i, what := range []string{"as they are written", "in its smallest form"} {
		m := play(t, role{Name: "rowindex", Events: indexKeys, Repeat: i, Dir: t.TempDir()})
		r.ratio(what+", bytes per key", Series{float64(m.Bytes) / float64(m.Events)}, "", AtMost(16))
		r.row("  written, million keys", Series{m.PerSecond() / 1e6}, "/s of processor time")
		r.row("  VmHWM", Series{float64(m.Peak) / 1e6}, "MB")
	}
}

// benchProbe is part (o): measuring a table beside only decoding its manifests.
func benchProbe(t *testing.T, _ *field, r *report) {
	r.part("o", fmt.Sprintf("frazil probe: manifests of %d entries with bounds of three columns, from the disk", commitEntries))
	for _, of := range []manifests{
		{"1 % are deletes, bounds over all keys", fewDeletes, keyRange},
		{"half are deletes, bounds over all keys", commitEntries / 2, keyRange},
		{"half are deletes, bounds over a quarter of them", commitEntries / 2, keyRange / 4},
	} {
		var peaks []Series
		for _, commits := range []int{5, 50} {
			metadata := of.write(t, commits)
			var probes, decodes, walls, peak, held Series
			for range probeRounds {
				decode := play(t, role{Name: "manifests", Dir: metadata, Repeat: probeRepeat})
				probe := play(t, role{Name: "probe", Dir: metadata, Repeat: probeRepeat})
				if probe.Bytes != decode.Bytes || probe.Events != decode.Events {
					t.Fatalf("the probe read %d entries, %d bytes; decoded were %d, %d", probe.Events, probe.Bytes, decode.Events, decode.Bytes)
				}
				probes, decodes, walls = append(probes, probe.PerEvent()), append(decodes, decode.PerEvent()), append(walls, probe.Wall/probeRepeat)
				peak, held = append(peak, float64(probe.Peak)/1e6), append(held, float64(decode.Peak)/1e6)
			}
			r.printf("  %d entries, %s", commits*commitEntries, of.what)
			r.row("a probe", walls, "s")
			r.row("processor time per entry", probes, "µs")
			r.row("  of decoding alone", decodes, "µs")
			r.ratio("probe / decoding, processor time", probes.Over(decodes), "", AtMost(2))
			r.row("VmHWM", peak, "MB")
			r.row("  of decoding alone", held, "MB")
			peaks = append(peaks, peak)
		}
		r.ratio("VmHWM of 100 000 entries / of 10 000", peaks[1].Over(peaks[0]), "", AtMost(1.2))
	}
}

// keyRange is the range of all keys.
const keyRange = 1 << 30

// manifests is what the entries of a table are like.
type manifests struct {
	what    string
	deletes int    // of a commit
	wide    uint64 // the least distance of the bounds of a file's keys
}

// write writes the metadata of a table by apache/iceberg-go, and answers its path.
func (of manifests) write(t *testing.T, commits int) string {
	t.Helper()
	schema := iceberg.NewSchema(0,
		iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true},
		iceberg.NestedField{ID: 2, Name: "amount", Type: iceberg.PrimitiveTypes.Int64},
		iceberg.NestedField{ID: 3, Name: "day", Type: iceberg.PrimitiveTypes.Date})
	byDay := iceberg.NewPartitionSpecID(0, iceberg.PartitionField{SourceIDs: []int{3}, FieldID: 1000, Name: "day", Transform: iceberg.IdentityTransform{}})
	table := scantest.New(t, 2, schema, byDay)
	table.Location = "file://" + t.TempDir()
	random := rand.New(rand.NewPCG(1, 1))
	for c := range commits {
		var files []scantest.File
		for i := range commitEntries {
			day := iceberg.Date(20_000 + i*20/commitEntries)
			f := scantest.File{
				Path:      fmt.Sprintf("s3://lake/db/t/data/day=%s/%05d-%05d.parquet", day.ToTime().Format("2006-01-02"), c, i),
				Partition: map[int]any{1000: day}, Records: 1000, Lower: map[int][]byte{}, Upper: map[int][]byte{}, Values: map[int]int64{}, Nulls: map[int]int64{},
			}
			for id := 1; id <= 2; id++ {
				// A thousand keys that are drawn from all leave a thousandth of the range at either end.
				low, rest := random.Uint64N(keyRange-of.wide+keyRange/1000), random.Uint64N(keyRange/1000)
				f.Lower[id], f.Upper[id] = binary.LittleEndian.AppendUint64(nil, low), binary.LittleEndian.AppendUint64(nil, low+of.wide-rest)
				f.Values[id], f.Nulls[id] = 1000, 0
			}
			bound := binary.LittleEndian.AppendUint32(nil, uint32(day))
			f.Lower[3], f.Upper[3], f.Values[3], f.Nulls[3] = bound, bound, 1000, 0
			if i*of.deletes/commitEntries != (i+1)*of.deletes/commitEntries {
				f.Content, f.EqualityIDs = iceberg.EntryContentEqDeletes, []int{1}
			}
			files = append(files, f)
		}
		table.Commit("overwrite", nil, files)
	}
	table.Metadata()
	table.Lake.WriteFiles(t)
	return strings.TrimPrefix(table.MetadataLocation(), "file://")
}
