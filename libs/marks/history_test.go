package marks_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/sealed"
	"github.com/frazil-io/frazil/libs/supersede"
)

// record is one offset of a test log.
type record struct {
	class layout.Class
	key   string
}

// fold is the oracle: the dullest forward fold there is, sharing no code with the walk. It answers the offsets
// of the live rows.
func fold(log []record, start, end kafkapos.Offset) []kafkapos.Offset {
	live := map[string]kafkapos.Offset{}
	for off := start; off < end; off++ {
		switch r := log[off]; r.class {
		case layout.Row:
			live[r.key] = off
		case layout.Delete:
			delete(live, r.key)
		}
	}
	return slices.Sorted(maps.Values(live))
}

// newer answers, for every event at or above start that a newer one of its key below end supersedes, the
// nearest of these.
func newer(log []record, start, end kafkapos.Offset) map[kafkapos.Offset]kafkapos.Offset {
	out, last := map[kafkapos.Offset]kafkapos.Offset{}, map[string]kafkapos.Offset{}
	for off := start; off < end; off++ {
		if r := log[off]; r.class == layout.Row || r.class == layout.Delete {
			if older, ok := last[r.key]; ok {
				out[older] = off
			}
			last[r.key] = off
		}
	}
	return out
}

func grow(r *rand.Rand, log []record, n, keys int) []record {
	for range n {
		rec := record{}
		switch x := r.IntN(100); {
		case x < 65:
			rec = record{layout.Row, fmt.Sprint("key ", r.IntN(keys))}
		case x < 82:
			rec = record{layout.Delete, fmt.Sprint("key ", r.IntN(keys))}
		case x < 88:
			rec = record{class: layout.NonRow}
		case x < 93:
			rec = record{class: layout.Bad}
		}
		log = append(log, rec)
	}
	return log
}

func hash(key string) (h keyrun.Hash) {
	if key != "" {
		x := uint64(14695981039346656037)
		for _, c := range []byte(key) {
			x = (x ^ uint64(c)) * 1099511628211
		}
		binary.BigEndian.PutUint64(h[:], x*0x9E3779B97F4A7C15)
	}
	return h
}

// cut is a published cut.
type cut struct{ start, end kafkapos.Offset }

// attempt is a plan that has not been published: others may be published first.
type attempt struct {
	rng           kafkapos.Range
	frontier, end kafkapos.Offset // of the log when it was planned
	plan          supersede.Plan
	layouts       []*layout.Layout
}

// publisher keeps one log as the dedup service would: everything goes through the persistent forms.
type publisher struct {
	t        *testing.T
	r        *rand.Rand
	log      []record
	log2     int
	first    kafkapos.Offset // the log's start
	frontier kafkapos.Offset
	end      kafkapos.Offset
	runs     keyrun.Set
	segments []*marks.Segment
	groups   map[kafkapos.Offset][]*marks.Group
	layouts  map[kafkapos.Offset]*layout.Layout
	ledgers  map[kafkapos.Offset]marks.Ledger
	cuts     []cut
}

func (p *publisher) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *publisher) walk() *attempt {
	if p.frontier <= p.first {
		return nil
	}
	chunk := layout.Chunk(p.frontier-1, p.log2)
	a := p.scan(kafkapos.Range{Start: max(chunk.Start, p.first), End: p.frontier})
	var err error
	a.plan, err = supersede.PlanWalk(p.events(a.rng), p.runs)
	p.must(err)
	return a
}

func (p *publisher) increment() *attempt {
	left := kafkapos.Offset(len(p.log)) - p.end
	if left == 0 {
		return nil
	}
	a := p.scan(kafkapos.Range{Start: p.end, End: p.end + 1 + kafkapos.Offset(p.r.Int64N(int64(left)))})
	var err error
	a.plan, err = supersede.PlanIncrement(p.events(a.rng), p.runs)
	p.must(err)
	return a
}

func (p *publisher) scan(rng kafkapos.Range) *attempt {
	b, err := layout.NewBuilder(rng, p.log2)
	p.must(err)
	for off := rng.Start; off < rng.End; off++ {
		p.must(b.Add(off, p.log[off].class))
	}
	ls, err := b.Layouts()
	p.must(err)
	return &attempt{rng: rng, frontier: p.frontier, end: p.end, layouts: ls}
}

func (p *publisher) events(rng kafkapos.Range) []supersede.Event {
	var out []supersede.Event
	for off := rng.Start; off < rng.End; off++ {
		if c := p.log[off].class; c != layout.Gap && c != layout.NonRow {
			out = append(out, supersede.Event{Offset: off, Hash: hash(p.log[off].key), Class: c})
		}
	}
	return out
}

// publish commits an attempt, rebased over what was published since it was planned; a second attempt at the
// same range is dropped.
func (p *publisher) publish(a *attempt) {
	plan, recent := a.plan, kafkapos.Range{}
	switch plan.Kind {
	case supersede.Walk:
		if a.frontier != p.frontier {
			return
		}
		recent = kafkapos.Range{Start: a.end, End: p.end}
	default:
		if a.end != p.end {
			return
		}
		recent = kafkapos.Range{Start: p.frontier, End: a.frontier}
	}
	plan, err := supersede.Rebase(plan, p.runs.Meeting(recent))
	p.must(err)
	segment, err := marks.NewSegment(plan.Marks, p.log2)
	p.must(err)
	raw, err := segment.Bytes()
	p.must(err)
	segment, err = marks.ParseSegment(raw)
	p.must(err)
	p.segments = append(p.segments, segment)
	var file bytes.Buffer
	_, err = keyrun.Write(&file, a.rng, plan.Run)
	p.must(err)
	run, err := keyrun.FromBytes(file.Bytes())
	p.must(err)
	p.runs, err = keyrun.NewSet(append(slices.Clone(p.runs.Runs()), run)...)
	p.must(err)
	p.frontier, p.end = min(p.frontier, a.rng.Start), max(p.end, a.rng.End)
	p.keep(a, segment)
}

// keep takes in the layouts and counts the marks.
func (p *publisher) keep(a *attempt, segment *marks.Segment) {
	recount := map[kafkapos.Offset]bool{}
	for _, l := range a.layouts {
		raw, err := l.Bytes()
		p.must(err)
		l, err = layout.Parse(raw)
		p.must(err)
		known := p.layouts[l.ChunkStart()]
		switch {
		case known == nil:
		case a.plan.Kind == supersede.Walk:
			l, err = l.Extend(known)
			recount[l.ChunkStart()] = true // rows came in below: positions moved
		default:
			l, err = known.Extend(l)
		}
		p.must(err)
		p.layouts[l.ChunkStart()] = l
	}
	for _, c := range segment.Chunks() {
		at := c.Range().Start
		var err error
		p.ledgers[at], err = p.ledgers[at].Extend(p.layouts[at], layout.CurrentRows, c, p.ends())
		p.must(err)
	}
	for at := range recount {
		var err error
		p.ledgers[at], err = marks.NewLedger(p.chain(at), p.ends())
		p.must(err)
	}
}

func (p *publisher) ends() []kafkapos.Offset {
	var out []kafkapos.Offset
	for _, c := range p.cuts {
		out = append(out, c.end)
	}
	p.r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func (p *publisher) chain(at kafkapos.Offset) marks.Chain {
	c := marks.Chain{Layout: p.layouts[at], Rows: layout.CurrentRows, Groups: p.groups[at]}
	for _, s := range p.segments {
		if part := s.Chunk(at); part != nil {
			c.Parts = append(c.Parts, part)
		}
	}
	return c
}

// merge makes one run, or one segment, of two neighbours.
func (p *publisher) merge() {
	if runs := p.runs.Runs(); len(runs) > 1 {
		i := p.r.IntN(len(runs) - 1)
		if runs[i].Range().End == runs[i+1].Range().Start {
			var file bytes.Buffer
			_, err := keyrun.Merge(&file, runs[i], runs[i+1])
			p.must(err)
			run, err := keyrun.Open(bytes.NewReader(file.Bytes()), int64(file.Len()), nil)
			p.must(err)
			rest := slices.Delete(slices.Clone(runs), i, i+2)
			p.runs, err = keyrun.NewSet(append(rest, run)...)
			p.must(err)
		}
	}
	if len(p.segments) > 1 {
		i := p.r.IntN(len(p.segments) - 1)
		s, err := marks.Merge(p.segments[i], p.segments[i+1])
		p.must(err)
		p.segments = slices.Replace(p.segments, i, i+2, s)
	}
	for at, g := range p.ledgers {
		b, err := g.AppendBinary(nil)
		p.must(err)
		r := sealed.NewReader(b)
		p.ledgers[at] = marks.ReadLedger(r)
		p.must(r.Done())
	}
}

// foldMarks drops some cuts and folds the marks below a kept one.
func (p *publisher) foldMarks() {
	p.cuts = slices.DeleteFunc(p.cuts, func(cut) bool { return p.r.IntN(3) == 0 })
	if len(p.cuts) == 0 {
		return
	}
	ends := p.ends()
	slices.Sort(ends)
	ends = slices.Compact(ends)
	horizon := ends[p.r.IntN(len(ends))]
	for at, l := range p.layouts {
		for _, g := range marks.Fold(l, layout.CurrentRows, ends, horizon, p.chain(at).Parts) {
			p.groups[at] = append(p.groups[at], p.beside(at, ends, g))
		}
	}
	p.segments = slices.DeleteFunc(p.segments, func(s *marks.Segment) bool {
		rest := s.Keep(func(m supersede.Mark) bool { return m.Newer >= horizon })
		if rest != nil {
			*s = *rest
		}
		return rest == nil
	})
}

// beside takes the groups that no end tells apart from g, or none of them, out of the chunk and merges them with it.
func (p *publisher) beside(at kafkapos.Offset, ends []kafkapos.Offset, g *marks.Group) *marks.Group {
	all := []*marks.Group{g}
	low, high := g.Newers()
	if p.r.IntN(2) == 0 {
		p.groups[at] = slices.DeleteFunc(p.groups[at], func(x *marks.Group) bool {
			xlow, xhigh := x.Newers()
			same := marks.SameInterval(ends, low, xlow) && marks.SameInterval(ends, high, xhigh)
			if same {
				all = append(all, x)
			}
			return same
		})
	}
	one, err := marks.MergeGroups(all...)
	p.must(err)
	raw, err := one.Bytes()
	p.must(err)
	one, err = marks.ParseGroup(raw)
	p.must(err)
	return one
}

// check compares what every kept cut shows with the oracle.
func (p *publisher) check() {
	p.t.Helper()
	for _, c := range p.cuts {
		if p.frontier > c.start {
			continue // not walked yet: nothing is served
		}
		var live []kafkapos.Offset
		for chunk := range layout.Chunks(kafkapos.Range{Start: c.start, End: c.end}, p.log2) {
			live = append(live, p.readFile(c, chunk)...)
		}
		if want := fold(p.log, c.start, c.end); !slices.Equal(live, want) {
			p.t.Fatalf("cut [%d,%d): live rows %v, want %v", c.start, c.end, live, want)
		}
	}
}

// readFile answers the live rows that a reader of one data file and its delete file finds, and checks what a
// manifest says of both.
func (p *publisher) readFile(c cut, chunk kafkapos.Range) []kafkapos.Offset {
	p.t.Helper()
	file := chunk.Intersect(kafkapos.Range{Start: c.start, End: c.end})
	chain := p.chain(chunk.Start)
	tally, err := chain.Tally(file, c.end)
	p.must(err)
	p.checkTally(tally, chunk, file, c.end)
	if kept, ok := p.ledgers[chunk.Start].At(c.end); !ok {
		p.t.Fatalf("cut [%d,%d), chunk %s: the ledger does not know the end of a kept cut", c.start, c.end, chunk)
	} else if kept.Newest != tally.Newest {
		p.t.Fatalf("cut [%d,%d), chunk %s: newest mark %d in the ledger, %d counted", c.start, c.end, chunk, kept.Newest, tally.Newest)
	} else if file.Start <= chain.Layout.Range().Start && (kept.Marks != tally.Marks || !slices.Equal(kept.Containers, tally.Containers)) {
		p.t.Fatalf("cut [%d,%d), chunk %s: ledger %+v, counted %+v", c.start, c.end, chunk, kept, tally)
	}
	deleted, err := chain.Positions(file, tally.E())
	p.must(err)
	if int64(deleted.GetCardinality()) != tally.Marks {
		p.t.Fatalf("cut [%d,%d), chunk %s: %d positions, %d counted", c.start, c.end, chunk, deleted.GetCardinality(), tally.Marks)
	}
	var live []kafkapos.Offset
	for pos := range kafkapos.Position(chain.Layout.Rows(file)) {
		if !deleted.Contains(uint32(pos)) {
			off, ok := chain.Layout.Offset(file.Start, pos)
			if !ok || !file.Contains(off) {
				p.t.Fatalf("file %s: position %d is offset %d, %t", file, pos, off, ok)
			}
			live = append(live, off)
		}
	}
	return live
}

// checkTally compares counts with the oracle's: E over the whole chunk, the marks of the file.
func (p *publisher) checkTally(got marks.Tally, chunk, file kafkapos.Range, end kafkapos.Offset) {
	p.t.Helper()
	marked, newest := int64(0), marks.None
	for o, n := range newer(p.log, p.frontier, end) {
		if p.log[o].class != layout.Row || !chunk.Contains(o) {
			continue
		}
		newest = max(newest, n)
		if file.Contains(o) {
			marked++
		}
	}
	if got.Marks != marked || got.Newest != newest {
		p.t.Fatalf("file %s at %d: %d marks, newest %d; want %d, %d", file, end, got.Marks, got.Newest, marked, newest)
	}
}

// checkMarks compares the whole chain with the oracle; only before anything was folded.
func (p *publisher) checkMarks() {
	p.t.Helper()
	want := newer(p.log, p.frontier, p.end)
	for _, s := range p.segments {
		for _, c := range s.Chunks() {
			for m := range c.All() {
				if n, ok := want[m.Older]; !ok || n != m.Newer {
					p.t.Fatalf("mark (%d, %d): a gap, marked twice, or not by its nearest newer event (%d)", m.Older, m.Newer, n)
				}
				delete(want, m.Older)
			}
		}
	}
	if len(want) > 0 {
		p.t.Fatalf("published [%d,%d): events without their mark: %v", p.frontier, p.end, want)
	}
}

// history runs a random history: puts, deletes, keys that come back; walks and increments by several writers
// with stale plans; cuts anywhere; merges and folds.
func history(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 0))
	log := grow(r, nil, 5+r.IntN(60), 1+r.IntN(12))
	first := kafkapos.Offset(r.IntN(min(8, len(log))))
	at := first + kafkapos.Offset(r.Int64N(int64(len(log))-int64(first)+1))
	p := &publisher{
		t: t, r: r, log: log, log2: 1 + r.IntN(5), first: first, frontier: at, end: at,
		groups: map[kafkapos.Offset][]*marks.Group{}, layouts: map[kafkapos.Offset]*layout.Layout{}, ledgers: map[kafkapos.Offset]marks.Ledger{},
	}
	folded := false
	var attempts []*attempt
	for range 60 {
		switch x := r.IntN(100); {
		case x < 12:
			p.log = grow(r, p.log, 1+r.IntN(10), 1+r.IntN(12))
		case x < 32:
			attempts = append(attempts, p.walk())
		case x < 47:
			attempts = append(attempts, p.increment())
		case x < 57:
			p.cut()
		case x < 62:
			p.merge()
		case x < 65:
			p.foldMarks()
			folded = true
		case len(attempts) > 0:
			i := r.IntN(len(attempts))
			if a := attempts[i]; a != nil {
				p.publish(a)
			}
			if r.IntN(4) > 0 {
				attempts = slices.Delete(attempts, i, i+1)
			}
		}
		if !folded {
			p.checkMarks()
		}
		p.check()
	}
}

// cut publishes a cut at the scanned end; its start may lie inside of a chunk.
func (p *publisher) cut() {
	if p.end == p.first {
		return
	}
	start := p.first + kafkapos.Offset(p.r.Int64N(int64(p.end-p.first)))
	if p.r.IntN(2) == 0 {
		start = p.first
	}
	p.cuts = append(p.cuts, cut{start: start, end: p.end})
}

// TestHistoriesShowAPlainFoldOfTheLog: the live rows of every kept cut are those of the oracle, marks lie only
// on events, each at most once and by its nearest newer event, however the log was cut into walks and
// increments; and what manifests say is what files hold.
func TestHistoriesShowAPlainFoldOfTheLog(t *testing.T) {
	seed := rand.Uint64()
	for i := range uint64(600) {
		t.Run(fmt.Sprint("seed ", seed+i), func(t *testing.T) { history(t, seed+i) })
		if t.Failed() {
			break
		}
	}
}

// FuzzHistory runs histories by number; a seed that failed goes into the corpus.
func FuzzHistory(f *testing.F) {
	f.Add(uint64(1))
	f.Fuzz(history)
}
