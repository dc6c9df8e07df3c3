package kafkalogtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

func recordsAsWritten(t *testing.T, tr *trial) {
	topic := tr.topic(t, "as-written", 1)
	written := []kafkalog.Record{
		{TimestampMs: 1_700_000_000_000, Key: []byte("k"), Value: []byte("v"), Headers: []kafkalog.Header{{Name: "h", Value: []byte("1")}, {Name: "h", Value: nil}, {Name: "", Value: []byte{}}}},
		{TimestampMs: 1_600_000_000_123, Key: nil, Value: []byte("no key")},
		{TimestampMs: 1_500_000_000_456, Key: []byte("no value"), Value: nil},
		{TimestampMs: 0, Key: []byte{}, Value: []byte{}},
	}
	rng := tr.Cluster.Append(t, topic.Name, 0, None, written...)
	var got []kafkalog.Record
	res, err := tr.Door.Read(t.Context(), topic, 0, rng, kafkalog.Visitor{Record: func(r *kafkalog.Record) error {
		got = append(got, keep(r))
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range written {
		want.Offset = rng.Start + kafkapos.Offset(i)
		if i < len(got) && !reflect.DeepEqual(got[i], want) {
			t.Errorf("record %d: got %#v\nwant %#v", i, got[i], want)
		}
	}
	if len(got) != len(written) {
		t.Errorf("%d records, want %d", len(got), len(written))
	}
	if res.LogStart != 0 || res.LeaderEpoch < 0 || res.Bytes <= 0 {
		t.Errorf("result %+v", res)
	}
}

// keep copies a record out of the reader's buffers.
func keep(r *kafkalog.Record) kafkalog.Record {
	c := kafkalog.Record{Offset: r.Offset, TimestampMs: r.TimestampMs, Key: bytes.Clone(r.Key), Value: bytes.Clone(r.Value)}
	for _, h := range r.Headers {
		c.Headers = append(c.Headers, kafkalog.Header{Name: h.Name, Value: bytes.Clone(h.Value)})
	}
	return c
}

func everyCodec(t *testing.T, tr *trial) {
	for _, codec := range Codecs() {
		topic := tr.topic(t, "codec-"+string(codec), 1)
		var all []string
		for batch := range 6 {
			var recs []kafkalog.Record
			for i := range 5 * (batch + 1) {
				r := rec(fmt.Sprintf("key-%d", i), strings.Repeat(fmt.Sprintf("value %d of %d;", i, batch), 20))
				all = append(all, fmt.Sprintf("%d %s=%s", len(all), r.Key, r.Value))
				recs = append(recs, r)
			}
			tr.Cluster.Append(t, topic.Name, 0, codec, recs...)
		}
		end := len(all)
		for _, r := range [][2]int{{0, end}, {0, 1}, {end - 1, end}, {3, 7}, {5, 15}, {4, end - 4}} {
			tr.want(t, topic, kafkapos.Offset(r[0]), kafkapos.Offset(r[1]), all[r[0]:r[1]]...)
		}
	}
}

func largeBatch(t *testing.T, tr *trial) {
	topic := tr.topic(t, "large", 1)
	big := strings.Repeat("x", 900<<10)
	for _, key := range []string{"a", "b", "c"} {
		tr.Cluster.Append(t, topic.Name, 0, None, rec(key, big))
	}
	tr.want(t, topic, 0, 3, "0 a="+big, "1 b="+big, "2 c="+big)
	tr.want(t, topic, 1, 2, "1 b="+big)
}

func transactions(t *testing.T, tr *trial) {
	topic := tr.topic(t, "txn", 1)
	commit := tr.Cluster.Begin(t, topic.Name, 0)
	commit.Append(t, rec("a", "1"), rec("b", "1"), rec("c", "1")) // 0-2
	commit.Commit(t)                                              // 3
	abort := tr.Cluster.Begin(t, topic.Name, 0)
	abort.Append(t, rec("a", "2"), rec("b", "2")) // 4-5
	abort.Abort(t)                                // 6
	again := tr.Cluster.Begin(t, topic.Name, 0)
	again.Append(t, rec("a", "3")) // 7
	again.Commit(t)                // 8
	if e := tr.ends(t, topic); e != (kafkalog.Ends{LogStart: 0, LastStable: 9}) {
		t.Errorf("ends %+v", e)
	}
	// What each offset is; a sub-range shows what it holds, and no more.
	is := []string{"0 a=1", "1 b=1", "2 c=1", "", "", "", "", "7 a=3", ""}
	for start := range len(is) {
		for end := start + 1; end <= len(is); end++ {
			tr.want(t, topic, kafkapos.Offset(start), kafkapos.Offset(end), expect(is, start, end)...)
		}
	}
}

// expect writes [start,end) down as collect does: an empty text is a non-row offset.
func expect(is []string, start, end int) []string {
	var lines []string
	for i := start; i < end; i++ {
		if is[i] != "" {
			lines = append(lines, is[i])
			continue
		}
		from := i
		for i+1 < end && is[i+1] == "" {
			i++
		}
		lines = append(lines, fmt.Sprintf("[%d,%d) nonrow", from, i+1))
	}
	return lines
}

func interleaved(t *testing.T, tr *trial) {
	topic := tr.topic(t, "interleaved", 1)
	aborts, commits := tr.Cluster.Begin(t, topic.Name, 0), tr.Cluster.Begin(t, topic.Name, 0)
	aborts.Append(t, rec("a", "lost"))                        // 0
	commits.Append(t, rec("b", "kept"))                       // 1
	aborts.Append(t, rec("a", "lost too"), rec("c", "lost"))  // 2-3
	tr.Cluster.Append(t, topic.Name, 0, Zstd, rec("p", "in")) // 4
	aborts.Abort(t)                                           // 5
	commits.Append(t, rec("b", "kept too"))                   // 6
	commits.Commit(t)                                         // 7
	is := []string{"", "1 b=kept", "", "", "4 p=in", "", "6 b=kept too", ""}
	for start := range len(is) {
		tr.want(t, topic, kafkapos.Offset(start), 8, expect(is, start, 8)...)
	}
}

func sameProducer(t *testing.T, tr *trial) {
	topic := tr.topic(t, "same-producer", 1)
	txn := tr.Cluster.Begin(t, topic.Name, 0)
	txn.Append(t, rec("a", "lost")) // 0
	txn.Abort(t)                    // 1
	txn = txn.Again(t)
	txn.Append(t, rec("a", "kept")) // 2
	txn.Commit(t)                   // 3
	txn = txn.Again(t)
	txn.Append(t, rec("a", "lost again")) // 4
	txn.Abort(t)                          // 5
	is := []string{"", "", "2 a=kept", "", "", ""}
	for start := range len(is) {
		tr.want(t, topic, kafkapos.Offset(start), 6, expect(is, start, 6)...)
	}
}

func markerTail(t *testing.T, tr *trial) {
	topic := tr.topic(t, "tail", 1)
	one := tr.Cluster.Begin(t, topic.Name, 0)
	one.Append(t, rec("a", "1"))
	one.Commit(t)
	for range 3 {
		x := tr.Cluster.Begin(t, topic.Name, 0)
		x.Append(t, rec("z", "never"))
		x.Abort(t)
	}
	e := tr.ends(t, topic)
	if e.LastStable != 8 {
		t.Fatalf("ends %+v", e)
	}
	tr.want(t, topic, 0, e.LastStable, "0 a=1", "[1,8) nonrow")
	tr.want(t, topic, 7, 8, "[7,8) nonrow")
}

func openTransaction(t *testing.T, tr *trial) {
	topic := tr.topic(t, "open", 1)
	tr.Cluster.Append(t, topic.Name, 0, None, rec("a", "1"))
	txn := tr.Cluster.Begin(t, topic.Name, 0)
	txn.Append(t, rec("b", "1"))
	tr.Cluster.Append(t, topic.Name, 0, None, rec("c", "1"))
	if e := tr.ends(t, topic); e.LastStable != 1 {
		t.Errorf("ends %+v", e)
	}
	tr.want(t, topic, 0, 1, "0 a=1")
	if _, _, err := tr.collect(t.Context(), topic, 0, kafkapos.Range{Start: 0, End: 2}); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("read beyond the last stable offset: %v", err)
	}
	txn.Commit(t)
	if e := tr.ends(t, topic); e.LastStable != 4 {
		t.Errorf("ends %+v", e)
	}
	tr.want(t, topic, 0, 4, "0 a=1", "1 b=1", "2 c=1", "[3,4) nonrow")
}

func belowLogStart(t *testing.T, tr *trial) {
	topic := tr.topic(t, "expired", 1)
	tr.Cluster.Append(t, topic.Name, 0, LZ4, rec("a", "0"), rec("b", "1"), rec("c", "2"), rec("d", "3"))
	tr.Cluster.Append(t, topic.Name, 0, LZ4, rec("e", "4"))
	tr.Cluster.Expire(t, topic.Name, 0, 2) // in the middle of a batch
	if e := tr.ends(t, topic); e != (kafkalog.Ends{LogStart: 2, LastStable: 5}) {
		t.Errorf("ends %+v", e)
	}
	if _, _, err := tr.collect(t.Context(), topic, 0, kafkapos.Range{Start: 1, End: 3}); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("read below the log start: %v", err)
	}
	got, res, err := tr.collect(t.Context(), topic, 0, kafkapos.Range{Start: 2, End: 5})
	if err != nil || res.LogStart != 2 || !slices.Equal(got, []string{"2 c=2", "3 d=3", "4 e=4"}) {
		t.Errorf("read from the log start: %v, %+v, %v", got, res, err)
	}
}

func beyondEnd(t *testing.T, tr *trial) {
	topic := tr.topic(t, "short", 1)
	tr.Cluster.Append(t, topic.Name, 0, None, rec("a", "0"), rec("b", "1"))
	for _, rng := range []kafkapos.Range{{Start: 0, End: 3}, {Start: 2, End: 3}, {Start: 7, End: 9}} {
		if _, _, err := tr.collect(t.Context(), topic, 0, rng); !errors.Is(err, fault.ErrRetired) {
			t.Errorf("read %s of a log that ends at 2: %v", rng, err)
		}
	}
}

func emptyRange(t *testing.T, tr *trial) {
	topic := tr.topic(t, "empty", 1)
	for _, rng := range []kafkapos.Range{{}, {Start: 5, End: 5}, {Start: 9, End: 3}} {
		got, res, err := tr.collect(t.Context(), topic, 0, rng)
		if err != nil || len(got) != 0 || res != (kafkalog.Result{LogStart: -1, LeaderEpoch: -1}) {
			t.Errorf("read %s: %v, %+v, %v", rng, got, res, err)
		}
	}
	if e := tr.ends(t, topic); e != (kafkalog.Ends{}) {
		t.Errorf("ends of an empty log: %+v", e)
	}
}

func recreated(t *testing.T, tr *trial) {
	old := tr.topic(t, "twice", 1)
	tr.Cluster.Append(t, "twice", 0, None, rec("old", "1"), rec("old", "2"))
	tr.want(t, old, 0, 2, "0 old=1", "1 old=2")
	tr.Cluster.Delete(t, "twice")
	now := tr.topic(t, "twice", 1)
	tr.Cluster.Append(t, "twice", 0, None, rec("new", "1"), rec("new", "2"), rec("new", "3"))
	if now.ID == old.ID {
		t.Fatal("both incarnations have one id")
	}
	if got, _, err := tr.collect(t.Context(), old, 0, kafkapos.Range{Start: 0, End: 2}); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("read of the old incarnation: %v, %v", got, err)
	}
	if _, err := tr.Door.Ends(t.Context(), old); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("ends of the old incarnation: %v", err)
	}
	tr.want(t, now, 0, 3, "0 new=1", "1 new=2", "2 new=3")
}

func deleted(t *testing.T, tr *trial) {
	topic := tr.topic(t, "gone", 1)
	tr.Cluster.Append(t, "gone", 0, None, rec("a", "1"))
	tr.Cluster.Delete(t, "gone")
	if _, _, err := tr.collect(t.Context(), topic, 0, kafkapos.Range{Start: 0, End: 1}); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("read: %v", err)
	}
	if _, err := tr.Door.Topic(t.Context(), "gone"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("describe: %v", err)
	}
}

func compacted(t *testing.T, tr *trial) {
	if tr.except.NoCompact != "" {
		t.Skip(tr.except.NoCompact)
	}
	tr.Cluster.Create(t, "compacted", 1, true)
	topic := tr.describe(t, "compacted")
	for _, batch := range [][]kafkalog.Record{
		{rec("first", "0"), rec("a", "1"), rec("b", "2"), rec("a", "3"), rec("c", "4")},
		{rec("b", "5"), rec("a", "6")},
		{rec("c", "7"), rec("c", "8"), rec("c", "9")},
		{rec("last", "10")},
	} {
		tr.Cluster.Append(t, "compacted", 0, Snappy, batch...)
	}
	tr.Cluster.Compact(t, "compacted", 0)
	left := []string{"0 first=0", "5 b=5", "6 a=6", "9 c=9", "10 last=10"}
	tr.want(t, topic, 0, 11, left...)
	tr.want(t, topic, 1, 5)
	tr.want(t, topic, 1, 6, left[1])
	tr.want(t, topic, 7, 9)
	tr.want(t, topic, 3, 10, left[1:4]...)
}

func partitions(t *testing.T, tr *trial) {
	topic := tr.topic(t, "many", 3)
	if len(topic.Partitions) != 3 {
		t.Fatalf("partitions %+v", topic.Partitions)
	}
	tr.Cluster.Append(t, "many", 0, None, rec("a", "p0"))
	tr.Cluster.Append(t, "many", 2, None, rec("a", "p2"), rec("b", "p2"))
	ends, err := tr.Door.Ends(t.Context(), topic)
	want := map[kafkapos.Partition]kafkalog.Ends{0: {LastStable: 1}, 1: {}, 2: {LastStable: 2}}
	if err != nil || !reflect.DeepEqual(ends, want) {
		t.Errorf("ends %+v, %v", ends, err)
	}
	got, _, err := tr.collect(t.Context(), topic, 2, kafkapos.Range{Start: 0, End: 2})
	if err != nil || !slices.Equal(got, []string{"0 a=p2", "1 b=p2"}) {
		t.Errorf("partition 2: %v, %v", got, err)
	}
}

func atOnce(t *testing.T, tr *trial) {
	topic := tr.topic(t, "busy", 1)
	var all []string
	for batch := range 20 {
		var recs []kafkalog.Record
		for i := range 10 {
			r := rec(fmt.Sprint(i), fmt.Sprintf("%d.%d", batch, i))
			all = append(all, fmt.Sprintf("%d %s=%s", len(all), r.Key, r.Value))
			recs = append(recs, r)
		}
		tr.Cluster.Append(t, "busy", 0, Codecs()[batch%len(Codecs())], recs...)
	}
	var wg sync.WaitGroup
	for i := range 12 {
		wg.Go(func() {
			start, end := 7*i, 7*i+100
			got, _, err := tr.collect(t.Context(), topic, 0, kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(end)})
			if err != nil || !slices.Equal(got, all[start:end]) {
				t.Errorf("read [%d,%d): %d records, %v", start, end, len(got), err)
			}
		})
	}
	wg.Wait()
}

func visitorError(t *testing.T, tr *trial) {
	topic := tr.topic(t, "enough", 1)
	tr.Cluster.Append(t, "enough", 0, None, rec("a", "1"), rec("b", "2"))
	enough := errors.New("enough")
	calls := 0
	_, err := tr.Door.Read(t.Context(), topic, 0, kafkapos.Range{Start: 0, End: 2}, kafkalog.Visitor{Record: func(*kafkalog.Record) error {
		calls++
		return enough
	}})
	if err != enough || calls != 1 { //nolint:errorlint // not even wrapped: that is the contract
		t.Errorf("%v after %d calls", err, calls)
	}
}

func cancelled(t *testing.T, tr *trial) {
	topic := tr.topic(t, "left", 1)
	tr.Cluster.Append(t, "left", 0, None, rec("a", "1"))
	gone := errors.New("gone home")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, _, err := tr.collect(ctx, topic, 0, kafkapos.Range{Start: 0, End: 1}); !errors.Is(err, gone) {
		t.Errorf("read: %v", err)
	}
	if _, err := tr.Door.Ends(ctx, topic); !errors.Is(err, gone) {
		t.Errorf("ends: %v", err)
	}
}

func metadata(t *testing.T, tr *trial) {
	b := tr.topic(t, "zz-second", 2)
	a := tr.topic(t, "aa-first", 1)
	all, err := tr.Door.Topics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	find := func(name string) int {
		return slices.IndexFunc(all, func(t kafkalog.Topic) bool { return t.Name == name })
	}
	if i, j := find("aa-first"), find("zz-second"); i < 0 || j < i || all[i].ID != a.ID || all[j].ID != b.ID || len(all[j].Partitions) != 2 {
		t.Errorf("topics %+v", all)
	}
	if id, err := tr.Door.ClusterID(t.Context()); err != nil || id == "" {
		t.Errorf("cluster id %q, %v", id, err)
	}
	cfg, err := tr.Door.Config(t.Context(), "aa-first")
	if err != nil || !cfg.Known || cfg.Compact || !cfg.Delete || cfg.RetentionMs != -1 {
		t.Errorf("configuration %+v, %v", cfg, err)
	}
	if _, err := tr.Door.Topic(t.Context(), "no-such"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("describe a topic that is not there: %v", err)
	}
	if _, err := tr.Door.Config(t.Context(), "no-such"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("configuration of a topic that is not there: %v", err)
	}
}

func down(t *testing.T, tr *trial) {
	if tr.except.NoDown != "" {
		t.Skip(tr.except.NoDown)
	}
	topic := tr.topic(t, "unreachable", 1)
	tr.Cluster.Append(t, topic.Name, 0, None, rec("a", "1"))
	tr.want(t, topic, 0, 1, "0 a=1")
	tr.Cluster.Down(t)
	_, topics := tr.Door.Topics(t.Context())
	_, describe := tr.Door.Topic(t.Context(), topic.Name)
	_, ends := tr.Door.Ends(t.Context(), topic)
	_, config := tr.Door.Config(t.Context(), topic.Name)
	_, _, read := tr.collect(t.Context(), topic, 0, kafkapos.Range{Start: 0, End: 1})
	for call, err := range map[string]error{"topics": topics, "topic": describe, "ends": ends, "config": config, "read": read} {
		if !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("%s: %v", call, err)
		}
	}
}
