// Package objectname is the grammar of every object key in the bucket. The name of a data file is the contract:
// it holds all that serving needs, and a keyed check, so that only names that were issued are served.
//
//	<table>-<state epoch>/<view>/metadata/<dialect>/<file>
//	<table>-<state epoch>/<view>/data/<partition>/<data file>.parquet
//	<table>-<state epoch>/<view>/deletes/<dialect>/<partition>/<data file>-x<E>.parquet|.puffin
//	data file = <start>-<end>-v<edition>-b<log2 of block>-s<file schema>-e<encoding id>-z<declared size>-<check>
//
// Characters are [A-Za-z0-9._/-] only, so that no two clients encode a key differently. Parse accepts exactly
// what Key prints: one key, one object.
package objectname

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// Views of a topic. Only Current is served so far; the others are reserved.
const (
	Current     = "current"
	Changes     = "changes"
	DeletedKeys = "deleted-keys"
	Errors      = "errors"
)

// Dialects.
const (
	V2 = "v2" // format version 2, position delete files
	V3 = "v3" // format version 3, deletion vectors
)

// Lengths of the base32 words in names, characters.
const (
	EpochLen = 16
	WordLen  = 10 // file schema, encoding id, check
)

// Object is a parsed key: a DataFile, a Deletes or a Metadata.
type Object interface {
	// Key is the object's key in the bucket.
	Key() string
	// Of is the table that the object belongs to.
	Of() Table
}

// Table is one incarnation of a table's state.
type Table struct {
	Name  string // [a-z0-9_]+
	Epoch string // EpochLen base32 characters, lower case
}

// Dir is the first segment of every key of the table.
func (t Table) Dir() string { return t.Name + "-" + t.Epoch }

// Location is the prefix, without a slash at its end, under which everything of a view lies.
func (t Table) Location(view string) string { return t.Dir() + "/" + view }

// DataFile names a data file: the rows of Range of one partition.
type DataFile struct {
	Table      Table
	View       string
	Partition  kafkapos.Partition
	Range      kafkapos.Range // never empty
	Edition    int
	BlockLog2  int
	FileSchema string // WordLen base32 characters
	Encoding   string // WordLen base32 characters
	Size       int64  // declared size, bytes
	Check      string // WordLen base32 characters; set by Signed
}

// Name is the file's name without directory and extension.
func (d DataFile) Name() string { return d.unsigned() + "-" + d.Check }

func (d DataFile) unsigned() string {
	b := make([]byte, 0, 96)
	b = strconv.AppendInt(b, int64(d.Range.Start), 10)
	b = append(b, '-')
	b = strconv.AppendInt(b, int64(d.Range.End), 10)
	b = append(b, "-v"...)
	b = strconv.AppendInt(b, int64(d.Edition), 10)
	b = append(b, "-b"...)
	b = strconv.AppendInt(b, int64(d.BlockLog2), 10)
	b = append(b, "-s"...)
	b = append(b, d.FileSchema...)
	b = append(b, "-e"...)
	b = append(b, d.Encoding...)
	b = append(b, "-z"...)
	b = strconv.AppendInt(b, d.Size, 10)
	return string(b)
}

// Key is the object's key in the bucket.
func (d DataFile) Key() string { return d.dir() + d.Name() + ".parquet" }

func (d DataFile) dir() string {
	return d.Table.Location(d.View) + "/data/" + strconv.Itoa(int(d.Partition)) + "/"
}

// Of is the table that the file belongs to.
func (d DataFile) Of() Table { return d.Table }

// Deletes names the delete file of Data that holds the positions of { o : newer(o) < E }.
type Deletes struct {
	Data    DataFile
	Dialect string
	E       kafkapos.Offset
}

// Key is the object's key in the bucket: a Parquet file in dialect v2, a Puffin file in v3.
func (d Deletes) Key() string {
	ext := ".parquet"
	if d.Dialect == V3 {
		ext = ".puffin"
	}
	return d.Data.Table.Location(d.Data.View) + "/deletes/" + d.Dialect + "/" +
		strconv.Itoa(int(d.Data.Partition)) + "/" + d.Data.Name() + "-x" + strconv.FormatInt(int64(d.E), 10) + ext
}

// Of is the table that the file belongs to.
func (d Deletes) Of() Table { return d.Data.Table }

// Metadata names a metadata JSON, a manifest list or a manifest.
type Metadata struct {
	Table   Table
	View    string
	Dialect string
	File    string // [A-Za-z0-9._-]+
}

// Key is the object's key in the bucket.
func (m Metadata) Key() string {
	return m.Table.Location(m.View) + "/metadata/" + m.Dialect + "/" + m.File
}

// Of is the table that the object belongs to.
func (m Metadata) Of() Table { return m.Table }

// Parse reads a key. Every error is fault.ErrNotFound: such an object was never issued.
func Parse(key string) (Object, error) {
	obj, ok := parse(key)
	if !ok || obj.Key() != key {
		return nil, fmt.Errorf("parse object key: %w: not a name that is issued here", fault.ErrNotFound)
	}
	return obj, nil
}

func parse(key string) (Object, bool) {
	seg := strings.Split(key, "/")
	if len(seg) < 5 {
		return nil, false
	}
	table, ok := ParseTable(seg[0])
	view := seg[1]
	if !ok || !isView(view) {
		return nil, false
	}
	switch {
	case seg[2] == "metadata" && len(seg) == 5 && isDialect(seg[3]):
		return Metadata{table, view, seg[3], seg[4]}, isFileName(seg[4])
	case seg[2] == "data" && len(seg) == 5:
		name, found := strings.CutSuffix(seg[4], ".parquet")
		d, good := parseDataName(name)
		p, number := parseInt(seg[3], 1<<31-1)
		d.Table, d.View, d.Partition = table, view, kafkapos.Partition(p)
		return d, found && good && number
	case seg[2] == "deletes" && len(seg) == 6 && isDialect(seg[3]):
		return parseDeletes(table, view, seg[3], seg[4], seg[5])
	}
	return nil, false
}

func parseDeletes(table Table, view, dialect, partition, file string) (Object, bool) {
	ext := ".parquet"
	if dialect == V3 {
		ext = ".puffin"
	}
	name, ok := strings.CutSuffix(file, ext)
	cut := strings.LastIndex(name, "-x")
	if !ok || cut < 0 {
		return nil, false
	}
	d, good := parseDataName(name[:cut])
	e, okE := parseInt(name[cut+2:], 1<<63-1)
	p, okP := parseInt(partition, 1<<31-1)
	d.Table, d.View, d.Partition = table, view, kafkapos.Partition(p)
	return Deletes{Data: d, Dialect: dialect, E: kafkapos.Offset(e)}, good && okE && okP
}

// parseDataName reads <start>-<end>-v<n>-b<n>-s<word>-e<word>-z<n>-<check>.
func parseDataName(name string) (DataFile, bool) {
	f := strings.Split(name, "-")
	if len(f) != 8 {
		return DataFile{}, false
	}
	tag := func(i int, t byte) (string, bool) {
		if len(f[i]) < 2 || f[i][0] != t {
			return "", false
		}
		return f[i][1:], true
	}
	number := func(i int, t byte, limit int64) (int64, bool) {
		s, ok := tag(i, t)
		if !ok {
			return 0, false
		}
		return parseInt(s, limit)
	}
	start, ok0 := parseInt(f[0], 1<<63-1)
	end, ok1 := parseInt(f[1], 1<<63-1)
	edition, ok2 := number(2, 'v', 1<<31-1)
	block, ok3 := number(3, 'b', 62)
	schema, ok4 := tag(4, 's')
	encoding, ok5 := tag(5, 'e')
	size, ok6 := number(6, 'z', 1<<63-1)
	d := DataFile{
		Range:   kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(end)},
		Edition: int(edition), BlockLog2: int(block), FileSchema: schema, Encoding: encoding, Size: size, Check: f[7],
	}
	return d, ok0 && ok1 && ok2 && ok3 && ok4 && ok5 && ok6 && start < end &&
		isWord(schema, WordLen) && isWord(encoding, WordLen) && isWord(f[7], WordLen)
}

// ParseTable reads <table>-<state epoch>.
func ParseTable(dir string) (Table, bool) {
	cut := strings.LastIndexByte(dir, '-')
	if cut <= 0 {
		return Table{}, false
	}
	t := Table{Name: dir[:cut], Epoch: dir[cut+1:]}
	for i := range len(t.Name) {
		c := t.Name[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return Table{}, false
		}
	}
	return t, isWord(t.Epoch, EpochLen)
}

func parseInt(s string, limit int64) (int64, bool) {
	if s == "" || len(s) > 1 && s[0] == '0' || s[0] == '+' || s[0] == '-' {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil && n <= limit
}

func isWord(s string, n int) bool {
	if len(s) != n {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < 'a' || c > 'z') && (c < '2' || c > '7') {
			return false
		}
	}
	return true
}

func isView(s string) bool {
	return s == Current || s == Changes || s == DeletedKeys || s == Errors
}

func isDialect(s string) bool { return s == V2 || s == V3 }

func isFileName(s string) bool {
	if s == "" || s[0] == '.' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}
