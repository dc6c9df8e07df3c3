package materializer_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/materializer"
)

func span(start, end kafkapos.Offset) kafkapos.Range { return kafkapos.Range{Start: start, End: end} }

// row is one line of a data file.
type row struct {
	offset int64
	name   string
}

func rowsOf(t *testing.T, data []byte) []row {
	t.Helper()
	f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	for i, c := range f.Schema().Columns() {
		at[c[0]] = i
	}
	r := parquet.NewReader(f)
	defer r.Close()
	var out []row
	buf := make([]parquet.Row, 64)
	for {
		n, err := r.ReadRows(buf)
		for _, v := range buf[:n] {
			if id := v[at["_row_id"]].Int64(); id != v[at["kafka_offset"]].Int64() {
				t.Fatalf("_row_id %d at offset %d of partition 0", id, v[at["kafka_offset"]].Int64())
			}
			out = append(out, row{v[at["kafka_offset"]].Int64(), v[at["name"]].String()})
		}
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// expected are the rows that fill made in a range.
func expected(rng kafkapos.Range) []row {
	var out []row
	for o := int(rng.Start); o < int(rng.End); o++ {
		if o%9 != 8 {
			out = append(out, row{int64(o), name(o*7%300, o)})
		}
	}
	return out
}

func equalRows(t *testing.T, what string, got, want []row) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rows, want %d", what, len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("%s: row %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

func TestAPublishedFileIsServedWithoutEncodingAgain(t *testing.T) {
	w := newWorld(t)
	w.fill(5000)
	rng := span(100, 4900)
	key := w.publish(rng)
	before := w.service.Counters()
	data := w.readAll(key)
	if int64(len(data)) != sizeOf(t, key) {
		t.Errorf("%d bytes, declared %d", len(data), sizeOf(t, key))
	}
	equalRows(t, "file", rowsOf(t, data), expected(rng))
	if after := w.service.Counters(); after.EncodedRowGroups != before.EncodedRowGroups || after.FetchedBytes != before.FetchedBytes || after.CacheHits == before.CacheHits {
		t.Errorf("before %+v, after %+v", before, after)
	}
}

func TestEveryRangeIsTheFilesSlice(t *testing.T) {
	w := newWorld(t)
	w.fill(4000)
	key := w.publish(span(0, 4000))
	whole := w.readAll(key)
	r := rand.New(rand.NewPCG(1, 1))
	for i := range 60 {
		off := r.Int64N(int64(len(whole)) + 1)
		n := r.Int64N(int64(len(whole)) - off + 1)
		got, err := w.read(t.Context(), key, off, n)
		if err != nil || !bytes.Equal(got, whole[off:off+n]) {
			t.Fatalf("range %d [%d,+%d): %d bytes, %v", i, off, n, len(got), err)
		}
	}
	if w.dedup.asked != 1 {
		t.Errorf("dedup was asked %d times", w.dedup.asked)
	}
}

func TestAllBytesAreTheSameAfterTheDiskWasLost(t *testing.T) {
	w := newWorld(t)
	w.fill(5000)
	key := w.publish(span(7, 5000))
	want := w.readAll(key)
	for _, how := range []string{"a restart", "a lost disk"} {
		if how == "a lost disk" {
			w.disk.Crash() // nothing of the cache was synced
		}
		w.start()
		if got := w.readAll(key); !bytes.Equal(got, want) {
			t.Errorf("after %s: other bytes", how)
		}
		groups := int64(len(layout.RowGroups(span(7, 5000), blockLog2)))
		if c := w.service.Counters(); how == "a restart" && c.EncodedRowGroups != 0 || how == "a lost disk" && c.EncodedRowGroups != groups {
			t.Errorf("after %s: %+v", how, c)
		}
	}
}

func TestOnlyTheRowGroupsOfARangeAreMade(t *testing.T) {
	w := newWorld(t)
	w.fill(8 << blockLog2)
	key := w.publish(span(0, 8<<blockLog2))
	want := w.readAll(key)
	w.disk.Crash()
	w.start()
	got, err := w.read(t.Context(), key, 4, 100)
	if err != nil || !bytes.Equal(got, want[4:104]) {
		t.Fatalf("first row group: %v", err)
	}
	if c := w.service.Counters(); c.EncodedRowGroups != 1 {
		t.Errorf("%d row groups were encoded for one", c.EncodedRowGroups)
	}
	if got, err = w.read(t.Context(), key, int64(len(want))-8, 8); err != nil || !bytes.Equal(got, want[len(want)-8:]) {
		t.Fatalf("footer: %v", err)
	}
	if c := w.service.Counters(); c.EncodedRowGroups != 8 {
		t.Errorf("%d row groups were encoded for a footer of 8", c.EncodedRowGroups)
	}
}

func TestManyReadersOneEncoding(t *testing.T) {
	w := newWorld(t)
	w.fill(1000)
	key := w.publish(span(0, 1000))
	want := w.readAll(key)
	w.disk.Crash()
	w.start()
	open := w.reader.close()
	var wg sync.WaitGroup
	for range 40 {
		wg.Go(func() {
			got, err := w.read(t.Context(), key, 0, int64(len(want)))
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	<-w.reader.seen
	open()
	wg.Wait()
	if c := w.service.Counters(); c.EncodedRowGroups != 1 {
		t.Errorf("%d encodings", c.EncodedRowGroups)
	}
}

func TestTheRowGroupsOfARangeAreMadeSideBySide(t *testing.T) {
	w := newWorld(t, func(c *materializer.Config) { c.Slots.Work = 3 })
	w.fill(4 << blockLog2)
	key := w.publish(span(0, 4<<blockLog2))
	want := w.readAll(key)
	w.disk.Crash()
	w.start()
	open := w.reader.close()
	done := make(chan error)
	go func() {
		got, err := w.read(t.Context(), key, 0, int64(len(want)))
		if err == nil && !bytes.Equal(got, want) {
			err = errors.New("other bytes")
		}
		done <- err
	}()
	for range 3 { // one after the other would never be three at once
		<-w.reader.seen
	}
	open()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestTheWorkGoesOnWhenTheClientHangsUp(t *testing.T) {
	w := newWorld(t)
	w.fill(1000)
	key := w.publish(span(0, 1000))
	want := w.readAll(key)
	w.disk.Crash()
	w.start()
	open := w.reader.close()
	ctx, hangUp := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := w.read(ctx, key, 0, int64(len(want)))
		done <- err
	}()
	<-w.reader.seen
	hangUp()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the reader that left: %v", err)
	}
	open()
	if got := w.readAll(key); !bytes.Equal(got, want) {
		t.Error("other bytes")
	}
	if c := w.service.Counters(); c.EncodedRowGroups != 1 {
		t.Errorf("%d encodings: the retry did not join", c.EncodedRowGroups)
	}
}

func TestAReadIsHeldAndThenAskedToComeBack(t *testing.T) {
	w := newWorld(t, func(c *materializer.Config) { c.Hold = 20 * time.Millisecond })
	w.fill(1000)
	key := w.publish(span(0, 1000))
	w.disk.Crash()
	w.start()
	open := w.reader.close()
	got, err := w.read(t.Context(), key, 0, sizeOf(t, key))
	if !errors.Is(err, fault.ErrUnavailable) || len(got) != 0 {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	open()
	for {
		if _, err := w.read(t.Context(), key, 0, sizeOf(t, key)); err == nil {
			break
		} else if !errors.Is(err, fault.ErrUnavailable) {
			t.Fatal(err)
		}
	}
	if c := w.service.Counters(); c.EncodedRowGroups != 1 {
		t.Errorf("%d encodings", c.EncodedRowGroups)
	}
}

func TestBytesThatWereNotRecordedAreNeverServed(t *testing.T) {
	for what, change := range map[string]func(*typesv1.RowGroup){
		"CRC": func(g *typesv1.RowGroup) { g.Crc++ }, "rows": func(g *typesv1.RowGroup) { g.Rows++ },
		"range": func(g *typesv1.RowGroup) { g.Range.End-- },
	} {
		w := newWorld(t)
		w.fill(1000)
		s, err := w.scan(span(0, 1000), span(0, 1000))
		if err != nil {
			t.Fatal(err)
		}
		w.disk.Crash()
		w.start()
		change(s.groups[0])
		got, err := w.read(t.Context(), w.record(span(0, 1000), s), 0, 100)
		if !errors.Is(err, fault.ErrRetired) || len(got) != 0 {
			t.Errorf("%s: %d bytes, %v", what, len(got), err)
		}
	}
}

func TestWhatIsNotServed(t *testing.T) {
	w := newWorld(t)
	w.fill(1000)
	key := w.publish(span(0, 1000))
	size := sizeOf(t, key)
	read := func(key string, off, n int64) error {
		got, err := w.read(t.Context(), key, off, n)
		if len(got) > 0 {
			t.Errorf("%s: %d bytes came first", key, len(got))
		}
		return err
	}
	for _, c := range []struct {
		what string
		err  error
		kind error
	}{
		{"a name that was never issued", read(strings.Replace(key, "0-1000-", "0-999-", 1), 0, 4), fault.ErrNotFound},
		{"no name", read("x", 0, 4), fault.ErrNotFound},
		{"beyond the end", read(key, size, 1), fault.ErrInvalid},
		{"a range that leaves the file", read(key, 0, size+1), fault.ErrInvalid},
		{"a negative offset", read(key, -1, 1), fault.ErrInvalid},
		{"a negative length", read(key, 0, -1), fault.ErrInvalid},
	} {
		if !errors.Is(c.err, c.kind) {
			t.Errorf("%s: %v, want %v", c.what, c.err, c.kind)
		}
	}
	if got, err := w.read(t.Context(), key, size, 0); err != nil || len(got) != 0 {
		t.Errorf("an empty range: %d bytes, %v", len(got), err)
	}
	resp := w.dedup.files[key]
	small := strings.Replace(key, fmt.Sprintf("-z%d-", size), fmt.Sprintf("-z%d-", size-1), 1)
	w.dedup.files[small] = resp
	if err := read(small, 0, 4); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("a file that outgrew its name: %v", err)
	}
	i := strings.Index(key, "-e") + 2
	other := key[:i] + "aaaaaaaaaa" + key[i+10:]
	w.dedup.files[other] = resp
	if err := read(other, 0, 4); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("another encoding: %v", err)
	}
	w.disk.Crash()
	w.start()
	if err := w.kafka.Expire(topicName, 0, 10); err != nil {
		t.Fatal(err)
	}
	if err := read(key, 4, 4); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("a log that was cut: %v", err)
	}
	w.kafka.SetDown(true)
	if err := read(key, 4, 4); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("no broker: %v", err)
	}
}

func TestAFullOrDamagedDiskCostsOnlyTime(t *testing.T) {
	w := newWorld(t)
	w.fill(3000)
	key := w.publish(span(0, 3000))
	want := w.readAll(key)
	infos, err := w.disk.List("/cache")
	if err != nil || len(infos) == 0 {
		t.Fatal(err)
	}
	for _, i := range infos {
		w.disk.Corrupt("/cache/"+i.Name, i.Size-1)
	}
	w.start()
	if got := w.readAll(key); !bytes.Equal(got, want) {
		t.Error("damaged: other bytes")
	}
	if c := w.service.Counters(); c.CacheFailures != int64(len(infos)) || c.EncodedRowGroups != int64(len(infos)) {
		t.Errorf("damaged: %+v", c)
	}
	w.disk.Crash()
	w.disk.Limit(1000)
	w.start()
	for range 2 {
		if got := w.readAll(key); !bytes.Equal(got, want) {
			t.Error("full: other bytes")
		}
	}
	if c := w.service.Counters(); c.CacheFailures == 0 {
		t.Errorf("full: %+v", c)
	}
}

func TestMetrics(t *testing.T) {
	w := newWorld(t)
	reader := sdkmetric.NewManualReader()
	s, err := materializer.New(w.cfg, materializer.Deps{
		Metadata: w.kafka, Reader: w.reader, Dedup: w.dedup, Files: fsys.NewMem(), Logger: slog.New(slog.DiscardHandler),
		Meter: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)).Meter("test"),
	})
	if err != nil || s.Name() != "materializer" {
		t.Fatal(err)
	}
	var got metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range got.ScopeMetrics[0].Metrics {
		names = append(names, strings.TrimPrefix(m.Name, "frazil.materializer."))
	}
	slices.Sort(names)
	const want = "[cache_bytes cache_failures cache_hits cache_misses cache_open_files encoded_row_groups encoded_rows fetched_bytes memory_used requests_waiting scanned_events slots_used]"
	if fmt.Sprint(names) != want {
		t.Errorf("metrics %v, want %s", names, want)
	}
}
