package catalogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	iceio "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/azure" // abfs://, abfss://, wasb://, wasbs://
	_ "github.com/apache/iceberg-go/io/gocloud/s3"    // s3://, s3a://, s3n://

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Catalog is an open catalog, or the location of one table's metadata. Safe for concurrent use.
type Catalog struct {
	backend backend
	props   map[string]string // for stores
	stores  stores
}

// backend is a kind of catalog.
type backend interface {
	// load answers where a table is. Errors: fault.ErrNotFound and the other kinds.
	load(ctx context.Context, ident []string) (*entry, error)
	// commit: see Catalog.Commit.
	commit(ctx context.Context, ident []string, t *Table, c *icebergcommit.Commit) error
	io.Closer
}

// entry is what a catalog says of a table.
type entry struct {
	location string            // of the metadata
	metadata []byte            // nil = to be read from the location
	props    map[string]string // for the store, over the catalog's own
	origin   json.RawMessage   // what the catalog needs for a commit to this version
}

// Table is a loaded table.
type Table struct {
	// Name is the identifier as the caller wrote it.
	Name string
	// MetadataLocation is where the metadata lies; it changes with every commit.
	MetadataLocation string
	// Raw is the metadata JSON, Meta what the scanning libraries take of it.
	Raw  []byte
	Meta *icebergscan.Table
	// Store reads and writes the table's objects.
	Store *Store

	origin json.RawMessage
}

// requestTimeout bounds one request to a catalog, body included.
const requestTimeout = 60 * time.Second

// Open connects to the catalog that the flags name. Requests to stores end with ctx. Errors: fault.ErrInvalid for wrong flags, fault.ErrUnauthenticated
// and fault.ErrDenied, else what the catalog answers.
func (f *Flags) Open(ctx context.Context) (*Catalog, error) {
	c, err := f.Config()
	if err != nil {
		return nil, err
	}
	// A store lives as long as its catalog, and iceberg-go keeps the context that it is made with.
	newStore := func(props map[string]string, location string) (iceio.IO, error) {
		return iceio.LoadFS(ctx, props, location)
	}
	if f.metadata != "" {
		return &Catalog{backend: fixed(f.metadata), props: c.Properties, stores: stores{open: newStore}}, nil
	}
	kind, err := c.kind()
	if err != nil {
		return nil, err
	}
	client := &http.Client{Timeout: requestTimeout}
	var b backend
	switch kind {
	case REST:
		b, err = openREST(ctx, &c, client)
	case SQL:
		b, err = openSQL(&c)
	default:
		b, err = openGlue(ctx, &c, client)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s catalog: %w", kind, err)
	}
	return &Catalog{backend: b, props: c.Properties, stores: stores{open: newStore}}, nil
}

// Close gives back connections.
func (c *Catalog) Close() error { return c.backend.Close() }

// Load loads a table: NAMESPACE.TABLE, levels of the namespace divided by dots. Errors: fault.ErrNotFound,
// fault.ErrInvalid for a name without a namespace, fault.ErrCorrupt for metadata that does not parse, else what
// catalog and store answer.
func (c *Catalog) Load(ctx context.Context, name string) (*Table, error) {
	t, err := c.load(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", name, err)
	}
	return t, nil
}

func (c *Catalog) load(ctx context.Context, name string) (*Table, error) {
	ident := strings.Split(name, ".")
	if _, any := c.backend.(fixed); !any && (len(ident) < 2 || strings.Contains("."+name+".", "..")) {
		return nil, fmt.Errorf("not NAMESPACE.TABLE: %w", fault.ErrInvalid)
	}
	e, err := c.backend.load(ctx, ident)
	if err != nil {
		return nil, err
	}
	props := map[string]string{}
	maps.Copy(props, c.props)
	maps.Copy(props, e.props)
	store, err := c.stores.get(props, e.location)
	if err != nil {
		return nil, fmt.Errorf("open the store of %s: %w", e.location, err)
	}
	if e.metadata == nil {
		if e.metadata, err = store.readAll(ctx, e.location); err != nil {
			return nil, err
		}
	}
	raw, err := unpack(e.metadata)
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", e.location, err)
	}
	meta, err := icebergscan.ParseTable(raw)
	if err != nil {
		return nil, fmt.Errorf("metadata %s: %w", e.location, err)
	}
	return &Table{Name: name, MetadataLocation: e.location, Raw: raw, Meta: meta, Store: store, origin: e.origin}, nil
}

// stores are those that a catalog's tables lie in. Each has connections of its own, so that tables of one bucket share
// one as long as they are told the same of it. Safe for concurrent use.
type stores struct {
	open func(props map[string]string, location string) (iceio.IO, error)

	mu   sync.Mutex
	last map[string]opened // by scheme and bucket
}

type opened struct {
	props map[string]string
	store *Store
}

func (s *stores) get(props map[string]string, location string) (*Store, error) {
	bucket := location
	if scheme, rest, ok := strings.Cut(location, "://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		bucket = scheme + "://" + authority
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if have, ok := s.last[bucket]; ok && maps.Equal(have.props, props) {
		return have.store, nil
	}
	files, err := s.open(props, location)
	if err != nil {
		return nil, err
	}
	if s.last == nil {
		s.last = map[string]opened{}
	}
	s.last[bucket] = opened{props, &Store{files}}
	return s.last[bucket].store, nil
}

// fixed is the location of one table's metadata.
type fixed string

func (f fixed) load(context.Context, []string) (*entry, error) {
	return &entry{location: string(f)}, nil
}

func (fixed) commit(context.Context, []string, *Table, *icebergcommit.Commit) error {
	return fmt.Errorf("--metadata names no catalog, so nothing can be committed: %w", fault.ErrUnsupported)
}

func (fixed) Close() error { return nil }

// Store reads and writes a table's objects. Safe for concurrent use.
type Store struct {
	IO iceio.IO
}

// Open implements icebergscan.Opener.
func (s *Store) Open(_ context.Context, location string) (io.ReadCloser, error) {
	return s.Object(location)
}

// File opens an object for reading at offsets, as long as ctx lives. The caller closes it. Errors: as Object.
func (s *Store) File(ctx context.Context, location string) (icebergscan.File, error) {
	f, ok, err := openRanges(ctx, s.IO, location)
	if ok {
		return f, opening(location, err)
	}
	whole, err := s.Object(location)
	if err != nil {
		return nil, err
	}
	return file{whole}, nil
}

type file struct{ iceio.File }

// Size implements icebergscan.File.
func (f file) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, fmt.Errorf("stat: %w", err)
	}
	return info.Size(), nil
}

// Object opens an object. The caller closes it. Errors: fault.ErrNotFound, else the store's.
func (s *Store) Object(location string) (iceio.File, error) {
	f, err := s.IO.Open(location)
	if opened, ok, failed := openKey(s.IO, location, err); ok {
		f, err = opened, failed
	}
	return f, opening(location, err)
}

// opening gives an error of opening an object its kind.
func opening(location string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("object %s: %w", location, fault.ErrNotFound)
	case err != nil:
		return fmt.Errorf("open object %s: %w", location, err)
	}
	return nil
}

func (s *Store) readAll(ctx context.Context, location string) ([]byte, error) {
	r, err := s.Open(ctx, location)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxMetadata))
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", location, err)
	}
	return text, nil
}
