package datafile

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Column is one column to read.
type Column struct {
	Field icebergscan.Field
	// Constant is the encoded value of all rows, for identity partition columns of data files, which readers take from
	// the partition and not from the file (Iceberg spec, "Column Projection"); nil = read the file.
	Constant []byte
}

// Constant encodes a value of a partition tuple for Column.Constant. Errors: fault.ErrUnsupported.
func Constant(f icebergscan.Field, v icebergscan.Value) ([]byte, error) {
	k, err := kindOf(f.Type)
	if err != nil {
		return nil, err
	}
	return appendValue(nil, k, v, false)
}

// Source is where a file lies.
type Source struct {
	// Path is for messages.
	Path string
	// Format is PARQUET, AVRO or ORC; letter case does not matter.
	Format string
	Reader io.ReaderAt
	Size   int64 // bytes
}

// Options say how to read.
type Options struct {
	// Names maps names to field ids for files without ids: the table property schema.name-mapping.default; nil = none.
	Names *NameMapping
	// Skip, if not nil, is asked for each row group; true leaves its rows out. Avro files have none.
	Skip func(g Group) bool
	// Rows, if not nil, are the positions wanted, ascending: batches without any of them may be left out.
	Rows []int64
}

// Group is what a Parquet file says of one row group.
type Group struct {
	Rows int64
	// Stats has one element for each column, with limits in single-value serialisation.
	Stats []icebergscan.ColumnStats
}

// batchRows is how many rows a batch has at the most.
const batchRows = 1024

// Batch is a run of rows. It is lent until the next one.
type Batch struct {
	// First is the position of the first row.
	First int64
	// Rows is how many there are.
	Rows int

	columns []encoded
}

// encoded is the values of one column: row i has bytes[ends[i-1]:ends[i]].
type encoded struct {
	bytes []byte
	ends  []int
	all   []byte // not nil: the value of every row
}

// AppendKey appends the values of the columns of row i of the batch, in the order given. Equal keys have equal bytes.
func (b *Batch) AppendKey(to []byte, i int, columns []int) []byte {
	for _, c := range columns {
		e := &b.columns[c]
		if e.all != nil {
			to = append(to, e.all...)
			continue
		}
		from := 0
		if i > 0 {
			from = e.ends[i-1]
		}
		to = append(to, e.bytes[from:e.ends[i]]...)
	}
	return to
}

// Read streams the columns of a file in the order of its rows. An error is yielded once, with a nil batch, and ends
// the stream: fault.ErrCorrupt, fault.ErrUnsupported (both name the file), or what the reader answers.
func Read(ctx context.Context, src Source, columns []Column, o Options) iter.Seq2[*Batch, error] {
	return func(yield func(*Batch, error) bool) {
		r := &reader{src: src, columns: columns, o: o, ctx: ctx, yield: yield}
		if err := r.run(); err != nil && !r.stopped {
			yield(nil, fmt.Errorf("read %s: %w", src.Path, err))
		}
	}
}

type reader struct {
	src     Source
	columns []Column
	kinds   []kind
	o       Options
	ctx     context.Context //nolint:containedctx // lives as long as one iteration
	yield   func(*Batch, error) bool
	stopped bool // the consumer has had enough
	batch   Batch
}

func (r *reader) run() error {
	r.batch.columns = make([]encoded, len(r.columns))
	for i, c := range r.columns {
		k, err := kindOf(c.Field.Type)
		if err != nil {
			return fmt.Errorf("column %s: %w", c.Field.Name, err)
		}
		r.kinds = append(r.kinds, k)
		r.batch.columns[i].all = c.Constant
	}
	switch strings.ToUpper(r.src.Format) {
	case "PARQUET":
		return r.parquet()
	case "AVRO":
		return r.avro()
	}
	return fmt.Errorf("files of format %s are not read, only Parquet and Avro; rewrite it with an engine: %w", r.src.Format, fault.ErrUnsupported)
}

// send yields the batch; false if the consumer has had enough.
func (r *reader) send() (bool, error) {
	if err := context.Cause(r.ctx); err != nil {
		return false, err
	}
	if !r.yield(&r.batch, nil) {
		r.stopped = true
		return false, nil
	}
	return true, nil
}

// missing encodes what a column is in a file that does not have it.
func (r *reader) missing(i int) error {
	all, err := appendDefault(nil, r.columns[i].Field.Type, r.columns[i].Field.InitialDefault)
	if err != nil {
		return fmt.Errorf("column %s: %w", r.columns[i].Field.Name, err)
	}
	r.batch.columns[i].all = all
	return nil
}

// NameMapping gives ids to the columns of files without (Iceberg spec, "Name Mapping Serialization").
type NameMapping struct{ fields []mapped }

type mapped struct {
	ID     *int32   `json:"field-id"`
	Names  []string `json:"names"`
	Fields []mapped `json:"fields"`
}

// ParseNameMapping reads the table property schema.name-mapping.default; nil for an empty one. Errors:
// fault.ErrCorrupt.
func ParseNameMapping(text string) (*NameMapping, error) {
	if text == "" {
		return nil, nil
	}
	m := &NameMapping{}
	if err := json.Unmarshal([]byte(text), &m.fields); err != nil {
		return nil, fmt.Errorf("name mapping of the table: %w: %w", fault.ErrCorrupt, err)
	}
	return m, nil
}

// find answers the mapped field of a name; nil if there is none.
func find(fields []mapped, name string) *mapped {
	for i := range fields {
		for _, n := range fields[i].Names {
			if n == name {
				return &fields[i]
			}
		}
	}
	return nil
}
