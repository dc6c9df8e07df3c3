package state

import (
	"fmt"
	"slices"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/marks"
	"github.com/frazil-io/frazil/libs/sealed"
)

// PageChunks is the number of chunks per page of a directory: an increment rewrites the pages whose chunks it
// touches, and the root.
const PageChunks = 64

// Views whose marks are counted, by index.
const (
	CurrentView = iota
	DeletedKeysView
	Views
)

// RowsOf is the row classes of a view.
func RowsOf(view int) layout.Classes {
	if view == DeletedKeysView {
		return layout.DeletedKeyRows
	}
	return layout.CurrentRows
}

// Root is the top of a log's directory. Immutable by convention: a change makes a copy.
type Root struct {
	Pages []PageRef // by ascending number
	Runs  []RunRef  // by ascending range, without a hole between them
	// Recent are segments of increments whose marks are not yet distributed over the chunks that they are in.
	Recent []SegmentRef
}

// PageRef names the page of the chunks [Number*PageChunks, (Number+1)*PageChunks).
type PageRef struct {
	Number int64
	Blob   string
}

// RunRef names a run file. A run can be lost and made again.
type RunRef struct {
	Name    string
	Range   kafkapos.Range
	Entries int64
}

// SegmentRef names a segment.
type SegmentRef struct {
	Blob  string
	Marks int64
}

// Chunk is what is published of one chunk.
type Chunk struct {
	Number int64 // start of the chunk / its size
	// Known is the part of the chunk whose classes are known: what one file of the newest cut covers.
	Known kafkapos.Range
	// Layouts are the pieces of the layout, ascending: their ranges follow each other and make up Known.
	Layouts []string
	// Segments have marks of this chunk only.
	Segments []string
	// Groups are folded marks.
	Groups []GroupRef
	// RowGroups is the blob with what was recorded of the row groups; empty when the file has not been encoded.
	RowGroups string
	// Encoding, FileSchema and BaseBytes are as ScanKeys reported them with the row groups.
	Encoding, FileSchema string
	BaseBytes            int64
	SchemaID             int32
	Edition              int
	// Complete: every row group of the file over Known, from the start on, is recorded.
	Complete bool
	// FileBytes is the declared size of that file.
	FileBytes int64
	Rows      int64 // rows of the current view in Known
	// Ledgers count the published marks whose older event is a row of the view, positions from Known.Start on.
	Ledgers [Views]marks.Ledger
}

// GroupRef names folded marks of one view.
type GroupRef struct {
	View            int
	Blob            string
	Lowest, Highest kafkapos.Offset
}

// Page is the chunks of one page, by ascending number.
type Page struct {
	Chunks []*Chunk
}

const (
	rootMagic sealed.Magic = "FZDR"
	pageMagic sealed.Magic = "FZDP"
)

// Bytes is the persistent form.
func (d *Root) Bytes() []byte {
	w := newWriter(rootMagic, 64*(len(d.Pages)+len(d.Runs)+len(d.Recent)))
	w.uint(uint64(len(d.Pages)))
	for _, p := range d.Pages {
		w.uint(uint64(p.Number))
		w.text(p.Blob)
	}
	w.uint(uint64(len(d.Runs)))
	for _, r := range d.Runs {
		w.text(r.Name)
		w.rng(r.Range)
		w.uint(uint64(r.Entries))
	}
	w.uint(uint64(len(d.Recent)))
	for _, s := range d.Recent {
		w.text(s.Blob)
		w.uint(uint64(s.Marks))
	}
	return w.seal()
}

// ParseRoot reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParseRoot(b []byte) (*Root, error) {
	r, err := openReader(rootMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse directory: %w", err)
	}
	d := &Root{}
	for range r.items() {
		d.Pages = append(d.Pages, PageRef{Number: int64(r.uint()), Blob: r.text()})
	}
	for range r.items() {
		d.Runs = append(d.Runs, RunRef{Name: r.text(), Range: r.rng(), Entries: int64(r.uint())})
	}
	for range r.items() {
		d.Recent = append(d.Recent, SegmentRef{Blob: r.text(), Marks: int64(r.uint())})
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse directory: %w", err)
	}
	return d, nil
}

// Clone copies the root so far that its lists can be changed.
func (d *Root) Clone() *Root {
	return &Root{Pages: slices.Clone(d.Pages), Runs: slices.Clone(d.Runs), Recent: slices.Clone(d.Recent)}
}

// Bytes is the persistent form.
func (p *Page) Bytes() []byte {
	w := newWriter(pageMagic, 256*len(p.Chunks))
	w.uint(uint64(len(p.Chunks)))
	for _, c := range p.Chunks {
		c.append(w)
	}
	return w.seal()
}

// AppendTo appends a form of everything that the chunk says: two chunks are equal if it is.
func (c *Chunk) AppendTo(b []byte) []byte {
	w := &writer{b: b}
	c.append(w)
	return w.b
}

func (c *Chunk) append(w *writer) {
	w.uint(uint64(c.Number))
	w.rng(c.Known)
	w.texts(c.Layouts)
	w.texts(c.Segments)
	w.uint(uint64(len(c.Groups)))
	for _, g := range c.Groups {
		w.uint(uint64(g.View))
		w.text(g.Blob)
		w.offset(g.Lowest)
		w.offset(g.Highest)
	}
	w.text(c.RowGroups)
	w.text(c.Encoding)
	w.text(c.FileSchema)
	w.uint(uint64(c.BaseBytes))
	w.uint(uint64(c.SchemaID))
	w.uint(uint64(c.Edition))
	complete := uint64(0)
	if c.Complete {
		complete = 1
	}
	w.uint(complete)
	w.uint(uint64(c.FileBytes))
	w.uint(uint64(c.Rows))
	for _, l := range c.Ledgers {
		w.b, _ = l.AppendBinary(w.b) // appending to memory does not fail
	}
}

// ParsePage reads what Bytes wrote. fault.ErrCorrupt: the bytes do not verify.
func ParsePage(b []byte) (*Page, error) {
	r, err := openReader(pageMagic, b)
	if err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	p := &Page{}
	for range r.items() {
		p.Chunks = append(p.Chunks, parseChunk(r))
	}
	if err := r.Done(); err != nil {
		return nil, fmt.Errorf("parse page: %w", err)
	}
	return p, nil
}

func parseChunk(r reader) *Chunk {
	c := &Chunk{Number: int64(r.uint()), Known: r.rng(), Layouts: r.texts(), Segments: r.texts()}
	for range r.items() {
		g := GroupRef{View: r.int(), Blob: r.text(), Lowest: r.offset(), Highest: r.offset()}
		if g.View >= Views {
			r.Fail("group of view %d", g.View)
		}
		c.Groups = append(c.Groups, g)
	}
	c.RowGroups, c.Encoding, c.FileSchema = r.text(), r.text(), r.text()
	c.BaseBytes, c.SchemaID, c.Edition = int64(r.uint()), int32(r.int()), r.int()
	c.Complete, c.FileBytes, c.Rows = r.uint() == 1, int64(r.uint()), int64(r.uint())
	for i := range c.Ledgers {
		c.Ledgers[i] = marks.ReadLedger(r.Reader)
	}
	return c
}

// Clone copies the chunk so far that its lists can be appended to.
func (c *Chunk) Clone() *Chunk {
	out := *c
	out.Layouts = slices.Clone(c.Layouts)
	out.Segments = slices.Clone(c.Segments)
	out.Groups = slices.Clone(c.Groups)
	return &out
}

// Find answers the chunk with the given number, nil if the page lacks it.
func (p *Page) Find(number int64) *Chunk {
	i, ok := p.search(number)
	if !ok {
		return nil
	}
	return p.Chunks[i]
}

// With answers the page with c in place of the chunk of its number. p is unchanged.
func (p *Page) With(c *Chunk) *Page {
	out := &Page{Chunks: slices.Clone(p.Chunks)}
	i, ok := out.search(c.Number)
	if ok {
		out.Chunks[i] = c
	} else {
		out.Chunks = slices.Insert(out.Chunks, i, c)
	}
	return out
}

func (p *Page) search(number int64) (int, bool) {
	return slices.BinarySearchFunc(p.Chunks, number, func(c *Chunk, n int64) int { return int(min(max(c.Number-n, -1), 1)) })
}
