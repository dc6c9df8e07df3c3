package catalogs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/apache/iceberg-go/catalog"
	_ "github.com/apache/iceberg-go/catalog/glue" // AWS Glue
	"github.com/apache/iceberg-go/catalog/rest"
	_ "github.com/apache/iceberg-go/catalog/sql" // SQL catalogs
	iceio "github.com/apache/iceberg-go/io"
	_ "github.com/apache/iceberg-go/io/gocloud/s3" // s3://
	"github.com/apache/iceberg-go/table"
	_ "github.com/jackc/pgx/v5/stdlib" // SQL catalogs in PostgreSQL
	_ "modernc.org/sqlite"             // SQL catalogs in SQLite

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// Catalog is an open catalog, or the location of one table's metadata. Safe for concurrent use.
type Catalog struct {
	catalog  catalog.Catalog // nil if metadata is set
	metadata string
	props    map[string]string
}

// Table is a loaded table.
type Table struct {
	// Name is the identifier as the caller wrote it.
	Name string
	// Iceberg is the client's own table, to commit with; nil if the metadata was read from a location.
	Iceberg *table.Table
	// MetadataLocation is where the metadata lies; it changes with every commit.
	MetadataLocation string
	// Meta is the same metadata as the scanning libraries take it.
	Meta *icebergscan.Table
	// Store reads the table's objects.
	Store *Store
}

// Open connects to the catalog that the flags name. Errors: fault.ErrInvalid for wrong flags, else what the catalog's
// client answers.
func (f *Flags) Open(ctx context.Context) (*Catalog, error) {
	c, err := f.Config()
	if err != nil {
		return nil, err
	}
	if f.metadata != "" {
		return &Catalog{metadata: f.metadata, props: c.Properties}, nil
	}
	kind, err := c.kind()
	if err != nil {
		return nil, err
	}
	props, err := c.properties(kind)
	if err != nil {
		return nil, err
	}
	name := c.Name
	if name == "" {
		name = "default"
	}
	opened, err := catalog.Load(ctx, name, props)
	if err != nil {
		return nil, fmt.Errorf("open %s catalog: %w", kind, kindOf(err))
	}
	return &Catalog{catalog: opened, props: props}, nil
}

// Close gives back connections.
func (c *Catalog) Close() error {
	if closer, ok := c.catalog.(catalog.Closer); ok {
		if err := closer.Close(); err != nil {
			return fmt.Errorf("close catalog: %w", err)
		}
	}
	return nil
}

// Load loads a table: NAMESPACE.TABLE, levels of the namespace divided by dots. Errors: fault.ErrNotFound,
// fault.ErrInvalid for a name without a namespace, else what the catalog's client answers.
func (c *Catalog) Load(ctx context.Context, name string) (*Table, error) {
	if c.catalog == nil {
		return c.loadMetadata(ctx, name)
	}
	ident := strings.Split(name, ".")
	if len(ident) < 2 || strings.Contains("."+name+".", "..") {
		return nil, fmt.Errorf("table %q is not NAMESPACE.TABLE: %w", name, fault.ErrInvalid)
	}
	t, err := c.catalog.LoadTable(ctx, ident)
	if err != nil {
		return nil, fmt.Errorf("load table %s: %w", name, kindOf(err))
	}
	text, err := json.Marshal(t.Metadata())
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	meta, err := icebergscan.ParseTable(text)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	store, err := t.FS(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the store of table %s: %w", name, err)
	}
	return &Table{Name: name, Iceberg: t, MetadataLocation: t.MetadataLocation(), Meta: meta, Store: &Store{store}}, nil
}

func (c *Catalog) loadMetadata(ctx context.Context, name string) (*Table, error) {
	files, err := iceio.LoadFS(ctx, c.props, c.metadata)
	if err != nil {
		return nil, fmt.Errorf("open the store of %s: %w", c.metadata, err)
	}
	store := &Store{files}
	r, err := store.Open(ctx, c.metadata)
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		return nil, fmt.Errorf("read %s: %w", c.metadata, err)
	}
	meta, err := parseMaybePacked(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.metadata, err)
	}
	return &Table{Name: name, MetadataLocation: c.metadata, Meta: meta, Store: store}, nil
}

// kindOf puts our kind of error over the client's.
func kindOf(err error) error {
	for _, k := range []struct{ theirs, ours error }{
		{catalog.ErrNoSuchTable, fault.ErrNotFound},
		{catalog.ErrNoSuchNamespace, fault.ErrNotFound},
		{catalog.ErrCatalogNotFound, fault.ErrInvalid},
		{rest.ErrUnauthorized, fault.ErrUnauthenticated},
		{rest.ErrAuthorizationExpired, fault.ErrUnauthenticated},
		{rest.ErrOAuthError, fault.ErrUnauthenticated},
		{rest.ErrForbidden, fault.ErrDenied},
		{rest.ErrServiceUnavailable, fault.ErrUnavailable},
		{rest.ErrServerError, fault.ErrUnavailable},
	} {
		if errors.Is(err, k.theirs) {
			return fmt.Errorf("%w: %w", k.ours, err)
		}
	}
	return err
}

// Store reads a table's objects. Safe for concurrent use.
type Store struct {
	IO iceio.IO
}

// Open implements icebergscan.Opener.
func (s *Store) Open(_ context.Context, location string) (io.ReadCloser, error) {
	return s.file(location)
}

// File opens an object for reading at offsets. The caller closes it. Errors as those of Open.
func (s *Store) File(location string) (iceio.File, error) { return s.file(location) }

func (s *Store) file(location string) (iceio.File, error) {
	f, err := s.IO.Open(location)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("object %s: %w", location, fault.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("open object %s: %w", location, err)
	}
	return f, nil
}
