package dedup

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/publish"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

func TestNothingMovedNothingPublished(t *testing.T) {
	w, st := given(t, 2)
	for range 3 {
		if again := w.advance(); !proto.Equal(again, st) {
			t.Fatalf("state %v, was %v", again, st)
		}
	}
	w.restart()
	if again := w.advance(); !proto.Equal(again, st) {
		t.Fatalf("after a restart: state %v, was %v", again, st)
	}
}

// A file whose rows did not change keeps its name and the snapshot that added it, and so does a group.
func TestUnchangedFilesKeepTheirNames(t *testing.T) {
	w := newWorld(t, 1)
	for k := range 200 {
		w.topic.append(0, put(1000+k)...)
	}
	first := w.advance()
	w.topic.append(0, put(1000, 5)...) // supersedes one row of the first chunk
	second := w.advance()
	before, after := w.keys(first, last(first)), w.keys(second, last(second))
	kept := 0
	for key, added := range before {
		if got, ok := after[key]; ok {
			kept++
			if got != added {
				t.Errorf("%s was added by %d, now by %d", key, added, got)
			}
		}
	}
	if kept != len(before)-1 { // the open chunk has another name
		t.Fatalf("%d of %d files kept their names", kept, len(before))
	}
	groups := map[string]int64{}
	for _, g := range last(first).GetGroups() {
		groups[g.GetName()] = g.GetAddedSnapshotId()
	}
	same := 0
	for _, g := range last(second).GetGroups() {
		if added, ok := groups[g.GetName()]; ok && added == g.GetAddedSnapshotId() {
			same++
		}
	}
	// 13 chunks in groups of 4: the first group has the new mark, the open one another file.
	if want := len(last(first).GetGroups()) - 2; same != want {
		t.Fatalf("%d of %d groups kept their names, want %d", same, len(groups), want)
	}
}

func TestADeadChunkIsNotListed(t *testing.T) {
	w := newWorld(t, 1)
	for range 20 {
		w.topic.append(0, put(1, 2, 3, 4)...)
	}
	st := w.advance()
	if n := len(w.keys(st, last(st))); n != 1 {
		t.Fatalf("%d files, want the last one only", n)
	}
	w.check(st, last(st))
}

func TestNamesThatWereNeverIssued(t *testing.T) {
	w, st := given(t, 1)
	var d objectname.DataFile
	var e kafkapos.Offset
	for _, ref := range last(st).GetGroups() {
		g, err := w.GetManifestGroup(t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: ref.GetName()})
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range g.GetEntries() {
			if entry.GetDeletes() != nil {
				obj, err := objectname.Parse(entry.GetDataKey())
				if err != nil {
					t.Fatal(err)
				}
				d, e = obj.(objectname.DataFile), kafkapos.Offset(entry.GetDeletes().GetE())
			}
		}
	}
	key := [16]byte(st.GetCheckKey())
	forged := d
	forged.Size++
	beyond := d
	beyond.Range = kafkapos.Range{Start: 4000, End: 4010}
	other := d
	other.Table.Epoch = "aaaaaaaaaaaaaaaa"
	partition := d
	partition.Partition = 9
	for name, k := range map[string]string{
		"no key": "x", "another size": forged.Key(), "a range that is not there": beyond.Signed(key).Key(),
		"another epoch": other.Signed(key).Key(), "another partition": partition.Signed(key).Key(),
	} {
		_, err := w.DescribeDataFile(t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: k})
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		wantKind(t, err, fault.ErrNotFound)
	}
	end := kafkapos.Offset(last(st).GetCut()[0].GetEnd())
	for name, del := range map[string]objectname.Deletes{
		"above the scanned end": {Data: d, Dialect: objectname.V3, E: end + 1},
		"without a position":    {Data: d, Dialect: objectname.V3, E: 0},
		"of a forged file":      {Data: forged, Dialect: objectname.V3, E: e},
	} {
		if _, err := w.object(del.Key()); err == nil {
			t.Errorf("%s: no error", name)
		} else {
			wantKind(t, err, fault.ErrNotFound)
		}
	}
	if _, err := w.DescribeDataFile(t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: objectname.Deletes{Data: d, Dialect: "v3", E: e}.Key()}); err == nil {
		t.Error("a delete file was described as a data file")
	}
	_, err := w.GetTable(t.Context(), &dedupv1.GetTableRequest{StateEpoch: "aaaaaaaaaaaaaaaa"})
	wantKind(t, err, fault.ErrNotFound)
}

func TestRangesOfDeleteFiles(t *testing.T) {
	w, st := given(t, 1)
	var key string
	for k := range w.keys(st, last(st)) {
		obj, err := objectname.Parse(k)
		if err != nil {
			t.Fatal(err)
		}
		del := objectname.Deletes{Data: obj.(objectname.DataFile), Dialect: objectname.V2, E: kafkapos.Offset(last(st).GetCut()[0].GetEnd())}
		if _, err := w.object(del.Key()); err == nil {
			key = del.Key()
		}
	}
	whole, err := w.object(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]int64{{0, 4}, {3, 10}, {0, 0}, {int64(len(whole)) - 4, 100}, {int64(len(whole)) + 9, 5}} {
		s := &deleteStream{ctx: t.Context()}
		if err := w.ReadDeletes(&dedupv1.ReadDeletesRequest{ObjectKey: key, Offset: c[0], Length: c[1]}, s); err != nil {
			t.Fatal(err)
		}
		from := min(c[0], int64(len(whole)))
		want := whole[from:min(from+c[1], int64(len(whole)))]
		if !slices.Equal(s.data, want) || s.size != fmt.Sprint(len(whole)) {
			t.Fatalf("bytes %v of %s, want %v of %d", s.data, s.size, want, len(whole))
		}
	}
	if err := w.ReadDeletes(&dedupv1.ReadDeletesRequest{ObjectKey: key, Offset: -1}, &deleteStream{ctx: t.Context()}); err == nil {
		t.Fatal("a negative offset was read")
	}
}

func TestOldVersionsStayReadable(t *testing.T) {
	w, st := given(t, 1)
	states := []*dedupv1.TableState{st}
	for i := range 5 {
		w.topic.append(0, put(i)...)
		states = append(states, w.advance())
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.now = w.now.Add(w.cfg.Snapshots.Retention - time.Minute)
	if err := w.garbage.Collect(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.restart()
	for _, want := range states {
		got, err := w.GetTable(t.Context(), &dedupv1.GetTableRequest{StateEpoch: st.GetStateEpoch(), Version: want.GetVersion()})
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(got.GetState(), want) {
			t.Fatalf("version %d is %v, was %v", want.GetVersion(), got.GetState(), want)
		}
	}
	for _, v := range []uint64{w.known + 1, 1 << 40} {
		_, err := w.GetTable(t.Context(), &dedupv1.GetTableRequest{StateEpoch: st.GetStateEpoch(), Version: v})
		wantKind(t, err, fault.ErrRetired)
	}
}

// A tag keeps its snapshot and everything that it shows, however old it is.
func TestTaggedSnapshotStaysReadable(t *testing.T) {
	w, st := given(t, 1)
	tagged := last(st)
	id := kafkapos.TopicID(st.GetTopic().GetTopicId())
	rec, version, err := w.Service.store.Record(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	next := rec.Clone()
	next.Tags = []state.Tag{{Name: "month-end", ID: tagged.GetId()}}
	if err := publish.Replace(t.Context(), w.Service.store, rec, version, next, w.now); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(6, 6))
	for range 12 {
		w.topic.append(0, random(r, 5)...)
		w.now = w.now.Add(20 * time.Minute)
		st = w.advance()
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	w.restart()
	if st.GetTags()["month-end"] != tagged.GetId() || st.GetSnapshots()[0].GetId() != tagged.GetId() {
		t.Fatalf("tags %v, oldest snapshot %d", st.GetTags(), st.GetSnapshots()[0].GetId())
	}
	w.check(st, st.GetSnapshots()[0])
	w.topic.starts[0] = 3
	w.topic.append(0, put(1)...)
	if st = w.advance(); len(st.GetTags()) != 0 {
		t.Fatalf("tags %v after Kafka lost rows that they need", st.GetTags())
	}
}

// TestSnapshotsAreThinned also collects, and reads every snapshot that is left.
func TestSnapshotsAreThinned(t *testing.T) {
	w, st := given(t, 1)
	first := last(st)
	firstKeys := w.keys(st, first)
	r := rand.New(rand.NewPCG(8, 8))
	began := w.now
	for w.now.Sub(began) < 3*time.Hour {
		w.topic.append(0, random(r, 2)...)
		w.now = w.now.Add(19 * time.Second)
		st = w.advance()
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := w.resolve(t.Context(), st.GetStateEpoch())
	if err != nil {
		t.Fatal(err)
	}
	// 30 in ten minutes of 20 s each, then one per minute up to an hour.
	if n := len(rec.Snapshots); n < 75 || n > 85 {
		t.Fatalf("%d snapshots are kept", n)
	}
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
	w.restart() // what is in memory may be answered for longer
	_, err = w.GetManifestGroup(t.Context(), &dedupv1.GetManifestGroupRequest{StateEpoch: st.GetStateEpoch(), Name: first.GetGroups()[len(first.GetGroups())-1].GetName()})
	wantKind(t, err, fault.ErrRetired)
	gone := 0
	for key := range firstKeys {
		if _, err := w.DescribeDataFile(t.Context(), &dedupv1.DescribeDataFileRequest{ObjectKey: key}); err != nil {
			wantKind(t, err, fault.ErrRetired)
			gone++
		}
	}
	if gone != 1 { // the file of the chunk that was open
		t.Fatalf("%d of %d files of the first snapshot are gone", gone, len(firstKeys))
	}
	blobs, err := w.store.ListBlobs(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for _, b := range blobs {
		kind, _, _ := strings.Cut(b, "/")
		kinds[kind]++
	}
	// 180 publishes an hour, and what they replaced is kept for one.
	if kinds["version"] > 190 || kinds["root"] > 250 || kinds["page"] > 250 {
		t.Fatalf("blobs %v", kinds)
	}
	runs, err := w.planner.Runs.List(state.Log{Epoch: st.GetStateEpoch()})
	if err != nil || len(runs) > 300 {
		t.Fatalf("%d run files, %v", len(runs), err)
	}
}

// A writer that was paused while what it had written was collected publishes nothing that is gone.
func TestPausedWriterWhoseObjectsWereCollected(t *testing.T) {
	w, _ := given(t, 1)
	w.topic.append(0, put(1, 2, 3)...)
	spec, paused := w.planned(0)
	w.advance()
	w.topic.append(0, put(1)...)
	w.advance()
	for range 3 {
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(2 * time.Hour)
	}
	if ok, err := w.planner.Publish(t.Context(), spec, paused); ok || err != nil {
		t.Fatalf("published %v, %v", ok, err)
	}
	st := w.advance()
	w.check(st, last(st))
}

// Another encoder makes other bytes: every kept snapshot has other files, all of which can be served.
func TestAnotherEncoder(t *testing.T) {
	w, old := given(t, 2)
	for i := range 6 {
		w.topic.append(i%2, put(i, 7, i+1)...)
		old = w.advance()
	}
	old = w.retag(old, set("kept", old.GetSnapshots()[2].GetId()))
	for _, encoding := range []string{"encodingb3", "encodingc4"} {
		w.topic.encoding = encoding
		w.restart()
		st := w.advance()
		if st.GetStateEpoch() != old.GetStateEpoch() || len(st.GetSnapshots()) != len(old.GetSnapshots()) {
			t.Fatalf("%d snapshots of %s, had %d of %s", len(st.GetSnapshots()), st.GetStateEpoch(), len(old.GetSnapshots()), old.GetStateEpoch())
		}
		for i, snap := range st.GetSnapshots() {
			if snap.GetId() != old.GetSnapshots()[i].GetId() {
				t.Fatal("the same cut became another snapshot")
			}
			for key := range w.keys(st, snap) {
				if !strings.Contains(key, encoding) {
					t.Fatalf("file %s of snapshot %d", key, i)
				}
			}
			w.check(st, snap)
		}
	}
	w.topic.append(0, put(5)...)
	st := w.advance()
	for _, snap := range st.GetSnapshots() {
		w.check(st, snap)
	}
	for range 3 { // what they need is not collected
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.now = w.now.Add(2 * time.Hour)
	}
	w.check(st, last(st))
}

// The materializers of a table at rest are upgraded, while dedup runs on.
func TestAnotherEncoderBesideATableAtRest(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		w, r := newWorld(t, 2), rand.New(rand.NewPCG(8, 8))
		if lazy {
			w = newLazyWorld(t, 2)
		}
		for i := range 5 {
			w.topic.append(i%2, put(i, 7, i+1)...)
			w.advance()
		}
		first := w.topic.encoding
		var st *dedupv1.TableState
		for _, encoding := range []string{"encodingb3", first, "encodingb3"} { // and back
			w.topic.encoding = encoding
			w.now = w.now.Add(encodingCheck)
			st = w.advance()
			for _, snap := range st.GetSnapshots() {
				for key := range w.keys(st, snap) {
					if !strings.Contains(key, encoding) {
						t.Fatalf("lazy %v: file %s", lazy, key)
					}
				}
				if lazy {
					w.checkLazy(st, snap, r)
				} else {
					w.check(st, snap)
				}
			}
		}
		if len(st.GetSnapshots()) < 5 {
			t.Fatalf("%d snapshots", len(st.GetSnapshots()))
		}
	}
}

// A table whose topic has got more partitions is not advanced, and goes on being read.
func TestAnotherEncoderAfterPartitionsWereAdded(t *testing.T) {
	w, old := given(t, 1)
	w.topic.addPartition(put(1)...)
	w.topic.encoding = "encodingb3"
	w.restart()
	resp, err := w.Advance(t.Context(), w.request())
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(resp.GetStaleReason(), "partitions") || last(resp.GetState()).GetId() != last(old).GetId() {
		t.Fatalf("stale: %q", resp.GetStaleReason())
	}
	for key := range w.keys(resp.GetState(), last(resp.GetState())) {
		if !strings.Contains(key, "encodingb3") {
			t.Fatalf("file %s; stale: %s", key, resp.GetStaleReason())
		}
	}
	w.check(resp.GetState(), last(resp.GetState()))
}

// Callers wait no longer than they asked for; the walk goes on and its progress is told.
func TestWaitingForTheFirstWalk(t *testing.T) {
	w := newWorld(t, 1)
	w.topic.append(0, random(rand.New(rand.NewPCG(2, 2)), 100)...)
	at, reached := make(chan struct{}), make(chan struct{})
	scans := 0
	w.topic.fail = func(kafkapos.Partition, kafkapos.Range) error {
		if scans++; scans == 4 {
			close(reached)
			<-at
		}
		return nil
	}
	req := w.request()
	ctx, cancel := context.WithCancel(t.Context())
	hungUp := make(chan error, 1)
	go func() {
		_, err := w.Advance(ctx, req)
		hungUp <- err
	}()
	<-reached
	cancel() // a caller that hangs up ends nothing
	wantKind(t, <-hungUp, context.Canceled)
	short := proto.CloneOf(req)
	short.WaitMillis = 1
	_, err := w.Advance(t.Context(), short)
	wantKind(t, err, fault.ErrUnavailable)
	if !strings.Contains(err.Error(), "36 of 100 offsets") {
		t.Fatalf("error %q, want the progress", err)
	}
	close(at)
	resp, err := w.Advance(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	w.check(resp.GetState(), last(resp.GetState()))
	if scans != 7 {
		t.Fatalf("%d scans, want one per chunk", scans)
	}
}
