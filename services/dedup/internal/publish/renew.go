package publish

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/chainstore"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/scan"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// Recorder makes sure that the row groups of a file over rng are recorded as they are encoded now, and answers them,
// ascending. fault.ErrRetired and fault.ErrNotFound: they cannot be.
type Recorder func(ctx context.Context, p kafkapos.Partition, rng kafkapos.Range) ([]*typesv1.RowGroup, error)

// renewal names the files of a record's snapshots for the present encoder.
type renewal struct {
	renderer
	now    scan.Encoding
	record Recorder
	views  map[kafkapos.Partition]*state.View
	// groups are the names that manifest groups have now, by the names that they had: snapshots share them.
	groups map[string]state.ManifestGroup
}

// Renew shows the files of every snapshot under new names where they were named for another encoder than the present
// one: the bytes under the old names cannot be made any more. Ids, cuts, times, rows and deleted positions stay. What
// the log no longer holds keeps its name. It answers whether the record was replaced; fault.ErrConflict: it is not the
// newest one.
func (p *Publisher) Renew(
	ctx context.Context, rec *state.Record, version chainstore.Version, now scan.Encoding, record Recorder,
) (bool, error) {
	n := &renewal{
		renderer: *newRenderer(p.Store, rec, p.ChunksPerGroup, 0, nil), now: now, record: record,
		views: map[kafkapos.Partition]*state.View{}, groups: map[string]state.ManifestGroup{},
	}
	next, changed := rec.Clone(), false
	for i, ref := range rec.Snapshots {
		was, err := p.Store.Snapshot(ctx, rec.Epoch, ref.Blob)
		if err != nil {
			return false, fmt.Errorf("read snapshot %d: %w", ref.ID, lost(err))
		}
		snap := *was
		snap.Groups = slices.Clone(was.Groups)
		for j := range snap.Groups {
			if snap.Groups[j], err = n.group(ctx, snap.Groups[j]); err != nil {
				return false, fmt.Errorf("name the files of snapshot %d anew: %w", ref.ID, err)
			}
		}
		if sameGroups(snap.Groups, was.Groups) {
			continue
		}
		changed = true
		if next.Snapshots[i].Blob, err = p.put(ctx, rec, &snap); err != nil {
			return false, err
		}
	}
	if !changed {
		return false, nil
	}
	return true, Replace(ctx, p.Store, rec, version, next, p.Now())
}

// group names the files of a manifest group anew.
func (n *renewal) group(ctx context.Context, g state.ManifestGroup) (state.ManifestGroup, error) {
	if g.Name == "" {
		return g, nil
	}
	if done, ok := n.groups[g.Name]; ok {
		g.Name, g.Inputs = done.Name, done.Inputs
		return g, nil
	}
	was := g.Name
	old, err := n.store.ManifestGroup(ctx, n.rec.Epoch, was)
	if err != nil {
		return g, fmt.Errorf("read manifest group %s: %w", was, lost(err))
	}
	resp, changed := &dedupv1.GetManifestGroupResponse{}, false
	for _, e := range old.GetEntries() {
		renewed, err := n.entry(ctx, e)
		if err != nil {
			return g, err
		}
		changed = changed || renewed != e
		resp.Entries = append(resp.Entries, renewed)
	}
	if changed {
		raw, err := state.MarshalEntries(resp)
		if err != nil {
			return g, err
		}
		// The next cut compares entries: it may find that it shows the same.
		g.Inputs = [16]byte{}
		if g.Name, err = n.put(ctx, raw); err != nil {
			return g, err
		}
	}
	n.groups[was] = g
	return g, nil
}

// entry answers the entry with the name of now; the same one if there is nothing to change.
func (n *renewal) entry(ctx context.Context, e *dedupv1.ManifestEntry) (*dedupv1.ManifestEntry, error) {
	object, err := objectname.Parse(e.GetDataKey())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrCorrupt)
	}
	d, ok := object.(objectname.DataFile)
	if !ok {
		return nil, fmt.Errorf("entry %s is of no data file: %w", e.GetDataKey(), fault.ErrCorrupt)
	}
	if d.Encoding == n.now.ID {
		return e, nil
	}
	out := proto.CloneOf(e)
	if d.Edition == RoomEdition {
		d.Encoding, d.FileSchema = n.now.ID, n.now.FileSchema
		out.DataKey = d.Signed(n.rec.CheckKey).Key()
		return out, nil
	}
	v, err := n.view(ctx, d.Partition)
	if err != nil {
		return nil, err
	}
	c, err := n.store.Chunk(ctx, v, int64(d.Range.Start)>>n.rec.ChunkLog2)
	if err != nil {
		return nil, err
	}
	if c == nil || c.Encoding != n.now.ID || c.Edition != d.Edition {
		return e, nil // below the start: Kafka is about to remove it
	}
	groups, err := n.record(ctx, d.Partition, d.Range)
	if errors.Is(err, fault.ErrRetired) || errors.Is(err, fault.ErrNotFound) {
		return e, nil
	}
	if err != nil {
		return nil, err
	}
	groups = slices.DeleteFunc(slices.Clone(groups), func(g *typesv1.RowGroup) bool { return g.GetRows() == 0 })
	d.Encoding, d.FileSchema, d.Size = c.Encoding, c.FileSchema, scan.FileSize(c.BaseBytes, groups)
	out.DataKey, out.FileSizeBytes, out.SplitOffsets = d.Signed(n.rec.CheckKey).Key(), d.Size, nil
	return out, n.describe(ctx, v, c, d.Range, groups, out)
}

func (n *renewal) view(ctx context.Context, p kafkapos.Partition) (*state.View, error) {
	if v := n.views[p]; v != nil {
		return v, nil
	}
	v, err := n.store.View(ctx, state.Log{Epoch: n.rec.Epoch, Partition: p})
	n.views[p] = v
	return v, err
}
