package probe

import (
	"fmt"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Matcher says how many of a set of equality deletes may touch a data file, by the rules of Run. It holds the deletes,
// some 200 bytes each. Add all of them, then Seal, then Match. Not for concurrent use.
type Matcher struct{ r *run }

// NewMatcher makes an empty one. Bounds of float and double columns are not gone by: they leave out NaN.
func NewMatcher(t *icebergscan.Table) *Matcher {
	return &Matcher{&run{table: t, groups: map[string]*group{}, keyColumns: map[string]*KeyColumns{}, withoutReals: true}}
}

// Want is what Add needs of delete entries.
func (m *Matcher) Want() icebergscan.Want { return icebergscan.Want{AllStats: true} }

// Add takes an equality delete. Errors: fault.ErrCorrupt for a partition spec that the table does not have.
func (m *Matcher) Add(e *icebergscan.Entry) error {
	g, err := m.r.groupOfDeletes(e)
	if err != nil {
		return err
	}
	g.count(e)
	m.r.hold(g, e)
	return nil
}

// Seal ends the adding.
func (m *Matcher) Seal() {
	m.r.seal()
	for _, g := range m.r.all() {
		for _, k := range g.sets {
			k.seal()
		}
	}
}

// WantData is what Match needs of data entries, known once all deletes are added.
func (m *Matcher) WantData() icebergscan.Want {
	var w icebergscan.Want
	for _, f := range m.r.columns {
		w.Stats = append(w.Stats, f.ID)
	}
	return w
}

// Touch is what a set of equality deletes may do to one data file.
type Touch struct {
	// Files is how many delete files may touch the data file after pruning by bounds, and Keys their delete keys:
	// the data file's share of the pruned probe units.
	Files, Keys int64
	// PlainKeys is the data file's share of the probe units without pruning.
	PlainKeys int64
}

// Match answers what the deletes may do to a data file.
func (m *Matcher) Match(e *icebergscan.Entry) (Touch, error) {
	var out Touch
	groups := make([]*group, 0, 2)
	if g, ok := m.r.groups[string(e.PartitionKey())]; ok {
		groups = append(groups, g)
	}
	if m.r.global != nil {
		groups = append(groups, m.r.global)
	}
	if e.Content != icebergscan.Data {
		return out, fmt.Errorf("%s is no data file", e.Path)
	}
	m.r.scratch = fileColumns(e, m.r.columns, m.r.scratch)
	for _, g := range groups {
		files, keys := g.pruned(e.SequenceNumber, m.r.scratch)
		out.Files, out.Keys = out.Files+int64(files), add(out.Keys, keys)
		out.PlainKeys = add(out.PlainKeys, g.plain(e.SequenceNumber))
	}
	return out, nil
}

// MayTouch reports whether an equality delete with the statistics del can touch rows with the statistics data; both
// have one element for each of the key columns.
func MayTouch(keys []icebergscan.Field, data, del []icebergscan.ColumnStats) bool {
	for i, f := range keys {
		if !f.Primitive() || f.Type == "float" || f.Type == "double" {
			continue
		}
		c, d := columnOf(f, data[i]), columnOf(f, del[i])
		if !c.mayMatch(&d) {
			return false
		}
	}
	return true
}
