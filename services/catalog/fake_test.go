package catalog

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
)

// fakeChunk is the fake's chunk: closed ones go to a group of their own.
const fakeChunk = 100

const fakeSchema = `{"type":"struct","schema-id":0,"fields":[` +
	`{"id":1,"name":"kafka_partition","required":true,"type":"int"},` +
	`{"id":2,"name":"kafka_offset","required":true,"type":"long"},` +
	`{"id":3,"name":"kafka_timestamp","required":true,"type":"timestamptz"},` +
	`{"id":4,"name":"id","required":false,"type":"long"}]}`

// fakeDedup publishes a cut for every end that it is told, without looking at any record: each file has one gap,
// and files of at least 5 rows have 3 deleted ones.
type fakeDedup struct {
	dedupv1.UnimplementedDedupServiceServer

	mu       sync.Mutex
	advances int
	waits    []int64
	known    []uint64
	// fail is answered instead of working; behind is said of every answer.
	fail   error
	behind string
	// hold, if set, is read from before an Advance answers.
	hold     chan struct{}
	entered  chan struct{}
	versions map[string][]*dedupv1.TableState // by state epoch
	current  map[string]string                // topic -> state epoch
	replaced map[string]bool
	groups   map[string]*dedupv1.GetManifestGroupResponse
	first    map[string]int64 // what -> the snapshot that first had it
}

func newFakeDedup() *fakeDedup {
	return &fakeDedup{
		versions: map[string][]*dedupv1.TableState{}, current: map[string]string{}, replaced: map[string]bool{},
		groups: map[string]*dedupv1.GetManifestGroupResponse{}, first: map[string]int64{},
	}
}

// serve answers a client that speaks to the fake as it would to another process.
func (f *fakeDedup) serve(t *testing.T) dedupv1.DedupServiceClient {
	t.Helper()
	pipe := rpc.NewPipe()
	server := grpc.NewServer(rpc.ServerOptions()...)
	dedupv1.RegisterDedupServiceServer(server, f)
	done := make(chan error, 1)
	go func() { done <- server.Serve(pipe.Listener()) }()
	conn, err := pipe.Dial("dedup")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return dedupv1.NewDedupServiceClient(conn)
}

func (f *fakeDedup) set(change func(f *fakeDedup)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeDedup) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.advances
}

func (f *fakeDedup) Advance(_ context.Context, req *dedupv1.AdvanceRequest) (*dedupv1.AdvanceResponse, error) {
	f.mu.Lock()
	hold, entered := f.hold, f.entered
	f.mu.Unlock()
	if hold != nil {
		entered <- struct{}{}
		<-hold
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.advances++
	f.waits, f.known = append(f.waits, req.GetWaitMillis()), append(f.known, req.GetKnownVersion())
	if f.fail != nil {
		return nil, f.fail
	}
	epoch := objectname.Word(hashOf(req.GetTopic().GetTopicId()), objectname.EpochLen)
	name := req.GetTopic().GetTopic()
	if old := f.current[name]; old != "" && old != epoch {
		f.replaced[old] = true
	}
	f.current[name] = epoch
	if len(f.versions[epoch]) == 0 {
		f.versions[epoch] = []*dedupv1.TableState{{
			Topic: req.GetTopic(), Table: req.GetTable(), StateEpoch: epoch, Version: 1, CheckKey: make([]byte, 16),
			Partitions: int32(len(req.GetLogs())), SchemasJson: [][]byte{[]byte(fakeSchema)}, Tags: map[string]int64{},
		}}
	}
	state := f.newest(epoch)
	cut := cutOf(req.GetLogs(), state)
	if n := len(state.GetSnapshots()); n == 0 || !sameCut(state.GetSnapshots()[n-1].GetCut(), cut) {
		state = f.publish(state, cut)
	}
	resp := &dedupv1.AdvanceResponse{State: state}
	if f.behind != "" {
		resp.StaleSinceMillis, resp.StaleReason = 1_700_000_000_000, f.behind
	}
	return resp, nil
}

func (f *fakeDedup) newest(epoch string) *dedupv1.TableState {
	v := f.versions[epoch]
	return proto.CloneOf(v[len(v)-1])
}

// change publishes a new version of a table with something changed in it.
func (f *fakeDedup) change(epoch string, change func(*dedupv1.TableState)) *dedupv1.TableState {
	state := f.newest(epoch)
	state.Version++
	change(state)
	f.versions[epoch] = append(f.versions[epoch], state)
	return state
}

// cutOf: a partition without a leader keeps its end.
func cutOf(logs []*dedupv1.LogState, state *dedupv1.TableState) []*dedupv1.PartitionCut {
	var cut []*dedupv1.PartitionCut
	for i, l := range logs {
		c := &dedupv1.PartitionCut{Partition: l.GetPartition(), Start: l.GetLogStartOffset(), End: l.GetEnd()}
		if last := currentSnapshot(state); l.GetOffline() && last != nil {
			c = last.GetCut()[i]
		}
		cut = append(cut, c)
	}
	return cut
}

func sameCut(a, b []*dedupv1.PartitionCut) bool {
	for i := range a {
		if !proto.Equal(a[i], b[i]) {
			return false
		}
	}
	return len(a) == len(b)
}

func (f *fakeDedup) publish(state *dedupv1.TableState, cut []*dedupv1.PartitionCut) *dedupv1.TableState {
	h := sha256.New()
	for _, c := range cut {
		fmt.Fprintln(h, c.GetPartition(), c.GetStart(), c.GetEnd())
	}
	id := int64(binary.BigEndian.Uint64(h.Sum(nil)) >> 1)
	snap := &dedupv1.Snapshot{Id: id, TimestampMillis: 1_700_000_000_000 + int64(state.GetVersion())*1000, Cut: cut}
	if last := currentSnapshot(state); last != nil {
		snap.ParentId = last.GetId()
	}
	var closed, open []*dedupv1.ManifestEntry
	for _, c := range cut {
		for start := c.GetStart(); start < c.GetEnd(); start += fakeChunk {
			e := f.entry(state, c.GetPartition(), start, min(start+fakeChunk, c.GetEnd()), id)
			switch {
			case e == nil:
			case start+fakeChunk <= c.GetEnd():
				closed = append(closed, e)
			default:
				open = append(open, e)
			}
		}
	}
	for _, entries := range [][]*dedupv1.ManifestEntry{closed, open} {
		if len(entries) > 0 {
			snap.Groups = append(snap.Groups, f.group(state.GetStateEpoch(), entries, id))
		}
	}
	return f.change(state.GetStateEpoch(), func(s *dedupv1.TableState) {
		s.Snapshots = append(s.Snapshots, snap)
		s.UpdatedMillis = snap.GetTimestampMillis()
	})
}

func (f *fakeDedup) firstHad(what string, id int64) int64 {
	if _, ok := f.first[what]; !ok {
		f.first[what] = id
	}
	return f.first[what]
}

func (f *fakeDedup) entry(state *dedupv1.TableState, partition int32, start, end, id int64) *dedupv1.ManifestEntry {
	rows := end - start - 1
	if rows == 0 {
		return nil
	}
	name := objectname.DataFile{
		Table: objectname.Table{Name: state.GetTable(), Epoch: state.GetStateEpoch()}, View: objectname.Current,
		Partition: kafkapos.Partition(partition), Range: kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(end)},
		BlockLog2: 10, FileSchema: "aaaaaaaaaa", Encoding: "bbbbbbbbbb", Size: 1000 + rows,
	}.Signed([16]byte{})
	bound := func(v int64) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(v)) }
	e := &dedupv1.ManifestEntry{
		Partition: partition, Start: start, End: end, DataKey: name.Key(), Rows: rows, FileSizeBytes: name.Size,
		SplitOffsets: []int64{4}, AddedSnapshotId: f.firstHad(name.Key(), id),
		Columns: []*typesv1.ColumnBounds{{FieldId: 2, Lower: bound(start), Upper: bound(end - 1), ValueCount: rows}},
	}
	if rows >= 5 {
		e.Deletes = &dedupv1.DeleteEntry{E: end, Cardinality: 3, ContainerCardinalities: []uint32{3}, AddedSnapshotId: e.GetAddedSnapshotId()}
	}
	return e
}

func (f *fakeDedup) group(epoch string, entries []*dedupv1.ManifestEntry, id int64) *dedupv1.GroupRef {
	resp := &dedupv1.GetManifestGroupResponse{Entries: entries}
	name := objectname.Word(hashOf([]byte(fmt.Sprint(entries))), 26)
	f.groups[epoch+"/"+name] = resp
	ref := &dedupv1.GroupRef{Name: name, AddedSnapshotId: f.firstHad(name, id)}
	for _, e := range entries {
		ref.DataFiles++
		ref.Rows += e.GetRows()
		if d := e.GetDeletes(); d != nil {
			ref.DeleteFiles++
			ref.DeletedRows += d.GetCardinality()
		}
	}
	return ref
}

func hashOf(b []byte) []byte {
	h := sha256.Sum256(b)
	return h[:]
}

func (f *fakeDedup) GetTable(_ context.Context, req *dedupv1.GetTableRequest) (*dedupv1.GetTableResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	epoch := req.GetStateEpoch()
	if f.replaced[epoch] {
		return nil, fmt.Errorf("the topic was created again: %w", fault.ErrRetired)
	}
	if len(f.versions[epoch]) == 0 {
		return nil, fmt.Errorf("no state epoch %s: %w", epoch, fault.ErrNotFound)
	}
	if req.GetVersion() == 0 {
		return &dedupv1.GetTableResponse{State: f.newest(epoch)}, nil
	}
	for _, s := range f.versions[epoch] {
		if s.GetVersion() == req.GetVersion() {
			return &dedupv1.GetTableResponse{State: s}, nil
		}
	}
	return nil, fmt.Errorf("version %d is no longer held: %w", req.GetVersion(), fault.ErrRetired)
}

func (f *fakeDedup) GetManifestGroup(_ context.Context, req *dedupv1.GetManifestGroupRequest) (*dedupv1.GetManifestGroupResponse, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	g, ok := f.groups[req.GetStateEpoch()+"/"+req.GetName()]
	if !ok {
		return nil, fmt.Errorf("no manifest group %s: %w", req.GetName(), fault.ErrNotFound)
	}
	return g, nil
}
