package catalog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
)

// stateCost is how much memory a state takes for each byte of its wire form, about.
const stateCost = 3

// linesCost is what the lines of a group take, bytes.
const linesCost = 700

// ReadMetadata answers a metadata object. The same key always has the same bytes, or an error.
func (s *Service) ReadMetadata(ctx context.Context, req *catalogv1.ReadMetadataRequest) (*catalogv1.ReadMetadataResponse, error) {
	parsed, err := objectname.Parse(req.GetObjectKey())
	if err != nil {
		return nil, err
	}
	object, ok := parsed.(objectname.Metadata)
	if !ok || object.View != objectname.Current {
		return nil, fmt.Errorf("%s is no metadata object: %w", req.GetObjectKey(), fault.ErrNotFound)
	}
	file, err := s.names.parse(object.File)
	if err != nil {
		return nil, err
	}
	data, ok := s.cache.get(objectKey(object)).([]byte)
	if !ok {
		data, err = s.renders.Do(ctx, object.Key(), func(ctx context.Context) ([]byte, error) { return s.render(ctx, object, file) })
	}
	if err != nil {
		return nil, fmt.Errorf("read metadata object %s: %w", object.File, err)
	}
	contentType := contentAvro
	if file.version != 0 {
		contentType = contentJSON
	}
	return &catalogv1.ReadMetadataResponse{Data: data, ContentType: contentType}, nil
}

// objectKey is an object's key in the cache.
func objectKey(object objectname.Metadata) string {
	return object.Table.Epoch + "/object/" + object.Key()
}

func (s *Service) render(ctx context.Context, object objectname.Metadata, file fileName) ([]byte, error) {
	switch {
	case file.version != 0:
		state, err := s.state(ctx, object.Table.Epoch, file.version)
		if errors.Is(err, fault.ErrRetired) {
			err = errors.Join(err, s.meet(ctx, object, file.version))
		}
		if err != nil {
			return nil, err
		}
		sub := newSubject(&s.cfg, state, object.Dialect)
		if sub.object(sub.metadataFile()) != object {
			return nil, notThisName(sub, object)
		}
		return s.metadataObject(ctx, sub, object)
	case file.list != 0:
		return s.listObject(ctx, object, file.list)
	default:
		return s.manifestObject(ctx, object, *file.manifest)
	}
}

// notThisName says why an object that looks right is not answered: it is of another table, or it was rendered
// from what has changed since.
func notThisName(sub subject, object objectname.Metadata) error {
	if sub.table != object.Table {
		return fmt.Errorf("state epoch %s is not of table %s: %w", object.Table.Epoch, object.Table.Name, fault.ErrNotFound)
	}
	return fmt.Errorf("%s was made from what has been withdrawn: %w: plan the query again", object.File, fault.ErrRetired)
}

// metadataObject answers the metadata JSON that the location names.
func (s *Service) metadataObject(ctx context.Context, sub subject, object objectname.Metadata) ([]byte, error) {
	key := objectKey(object)
	if data, ok := s.cache.get(key).([]byte); ok {
		return data, nil
	}
	data, err := sub.metadata(staleness{}, false)
	if err != nil {
		return nil, err
	}
	s.metrics.render(ctx, "metadata")
	s.cache.put(key, data, int64(len(data)))
	return data, nil
}

func (s *Service) listObject(ctx context.Context, object objectname.Metadata, id int64) ([]byte, error) {
	state, snap, err := s.stateOfSnapshot(ctx, object.Table.Epoch, id)
	if err != nil {
		return nil, err
	}
	sub := newSubject(&s.cfg, state, object.Dialect)
	if sub.object(sub.listFile(snap)) != object {
		return nil, notThisName(sub, object)
	}
	groups := make([]groupLines, len(snap.GetGroups()))
	for i, g := range snap.GetGroups() {
		m := manifestID{g.GetName(), g.GetAddedSnapshotId(), snap.GetSchemaId()}
		if groups[i], err = s.lines(ctx, sub, m); err != nil {
			return nil, err
		}
	}
	data, err := sub.list(snap, groups)
	if err != nil {
		return nil, err
	}
	s.metrics.render(ctx, "manifest_list")
	s.cache.put(objectKey(object), data, int64(len(data)))
	return data, nil
}

func (s *Service) manifestObject(ctx context.Context, object objectname.Metadata, id manifestID) ([]byte, error) {
	state, err := s.stateWithSchema(ctx, object.Table.Epoch, id.schemaID)
	if err != nil {
		return nil, err
	}
	sub := newSubject(&s.cfg, state, object.Dialect)
	if sub.table != object.Table {
		return nil, notThisName(sub, object)
	}
	group, err := s.group(ctx, sub, id)
	if err != nil {
		return nil, err
	}
	data := group.data
	if object.File == id.file(iceberg.PositionDeletes) {
		data = group.deletes
	}
	if data == nil {
		return nil, fmt.Errorf("the group has no such manifest: %w", fault.ErrNotFound)
	}
	return data, nil
}

// lines answers the lines of a group's manifests, rendering them if they are not known.
func (s *Service) lines(ctx context.Context, sub subject, id manifestID) (groupLines, error) {
	if l, ok := s.cache.get(linesKey(sub, id)).(groupLines); ok {
		return l, nil
	}
	g, err := s.group(ctx, sub, id)
	if err != nil {
		return groupLines{}, err
	}
	return groupLines{g.dataLine, g.deletesLine}, nil
}

func linesKey(sub subject, id manifestID) string {
	return sub.table.Epoch + "/lines/" + sub.dialect + "/" + id.file(iceberg.Data)
}

// group renders both manifests of a group and keeps them.
func (s *Service) group(ctx context.Context, sub subject, id manifestID) (*renderedGroup, error) {
	resp, err := s.deps.Dedup.GetManifestGroup(ctx, &dedupv1.GetManifestGroupRequest{StateEpoch: sub.table.Epoch, Name: id.group})
	if err != nil {
		return nil, fmt.Errorf("get manifest group %s: %w", id.group, rpc.Error(err))
	}
	g, err := sub.group(id, resp.GetEntries())
	if err != nil {
		return nil, err
	}
	s.metrics.render(ctx, "manifest")
	s.cache.put(linesKey(sub, id), groupLines{g.dataLine, g.deletesLine}, linesCost)
	for content, data := range map[iceberg.Content][]byte{iceberg.Data: g.data, iceberg.PositionDeletes: g.deletes} {
		if data != nil {
			s.cache.put(objectKey(sub.object(id.file(content))), data, int64(len(data)))
		}
	}
	return g, nil
}

// state answers a version of a table's record; version 0 = the current one.
func (s *Service) state(ctx context.Context, epoch string, version uint64) (*dedupv1.TableState, error) {
	if version != 0 {
		if state, ok := s.cache.get(stateKey(epoch, version)).(*dedupv1.TableState); ok {
			return state, nil
		}
	}
	resp, err := s.deps.Dedup.GetTable(ctx, &dedupv1.GetTableRequest{StateEpoch: epoch, Version: version})
	if err != nil {
		return nil, fmt.Errorf("get state of epoch %s: %w", epoch, rpc.Error(err))
	}
	state := resp.GetState()
	if state.GetStateEpoch() != epoch || version != 0 && state.GetVersion() != version {
		return nil, fmt.Errorf("dedup answered epoch %s version %d for %s version %d: %w",
			state.GetStateEpoch(), state.GetVersion(), epoch, version, fault.ErrCorrupt)
	}
	s.keepState(state)
	return state, nil
}

func stateKey(epoch string, version uint64) string {
	return epoch + "/state/" + strconv.FormatUint(version, 10)
}

func latestKey(epoch string) string { return epoch + "/latest" }

func (s *Service) keepState(state *dedupv1.TableState) {
	epoch, size := state.GetStateEpoch(), int64(proto.Size(state))*stateCost
	s.cache.put(stateKey(epoch, state.GetVersion()), state, size)
	if last, ok := s.cache.get(latestKey(epoch)).(*dedupv1.TableState); !ok || last.GetVersion() < state.GetVersion() {
		s.cache.put(latestKey(epoch), state, size)
	}
}

// stateOfSnapshot answers the newest known state that has a snapshot, asking dedup only for what is not known.
func (s *Service) stateOfSnapshot(ctx context.Context, epoch string, id int64) (*dedupv1.TableState, *dedupv1.Snapshot, error) {
	if state, ok := s.cache.get(latestKey(epoch)).(*dedupv1.TableState); ok {
		if snap := findSnapshot(state, id); snap != nil {
			return state, snap, nil
		}
	}
	state, err := s.state(ctx, epoch, 0)
	if err != nil {
		return nil, nil, err
	}
	snap := findSnapshot(state, id)
	if snap == nil {
		return nil, nil, fmt.Errorf("snapshot %d is no longer held: %w: plan the query again", id, fault.ErrRetired)
	}
	return state, snap, nil
}

func findSnapshot(state *dedupv1.TableState, id int64) *dedupv1.Snapshot {
	for _, snap := range state.GetSnapshots() {
		if snap.GetId() == id {
			return snap
		}
	}
	return nil
}

// stateWithSchema answers a state that has a schema. Schemas are only ever appended.
func (s *Service) stateWithSchema(ctx context.Context, epoch string, schemaID int32) (*dedupv1.TableState, error) {
	if state, ok := s.cache.get(latestKey(epoch)).(*dedupv1.TableState); ok && int(schemaID) < len(state.GetSchemasJson()) {
		return state, nil
	}
	return s.state(ctx, epoch, 0)
}

// ResolveEpoch answers what an edge needs to check object names.
func (s *Service) ResolveEpoch(ctx context.Context, req *catalogv1.ResolveEpochRequest) (*catalogv1.ResolveEpochResponse, error) {
	epoch := req.GetStateEpoch()
	if _, ok := objectname.ParseTable("t-" + epoch); !ok {
		return nil, fmt.Errorf("no state epoch %q: %w", epoch, fault.ErrNotFound)
	}
	// Always asked: a replaced epoch must not live on in a cache.
	state, err := s.state(ctx, epoch, 0)
	if err != nil {
		return nil, err
	}
	return &catalogv1.ResolveEpochResponse{Table: state.GetTable(), Topic: state.GetTopic().GetTopic(), CheckKey: state.GetCheckKey()}, nil
}
