package catalogs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // driver pgx
	_ "modernc.org/sqlite"             // driver sqlite

	"github.com/frazil-io/frazil/libs/fault"
)

// sqlCatalog reads from the tables of an Iceberg SQL (JDBC) catalog, and changes the line of a table by a commit. It
// creates nothing.
type sqlCatalog struct {
	db            *sql.DB
	uri           string
	name          string
	query, update string
}

func openSQL(c *Config) (*sqlCatalog, error) {
	driver, source, err := database(c.URI, "ro")
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", fault.ErrInvalid, err)
	}
	mark := "$" // how a driver counts parameters
	if driver == "sqlite" {
		mark = "?"
	}
	s := &sqlCatalog{
		db: db, uri: c.URI, name: c.Name,
		query: strings.ReplaceAll("SELECT metadata_location FROM iceberg_tables WHERE catalog_name = $1 AND table_namespace = $2 AND table_name = $3", "$", mark),
		update: strings.ReplaceAll("UPDATE iceberg_tables SET metadata_location = $1, previous_metadata_location = $2 "+
			"WHERE catalog_name = $3 AND table_namespace = $4 AND table_name = $5 AND metadata_location = $6", "$", mark),
	}
	if s.name == "" {
		s.name = "default"
	}
	return s, nil
}

// database answers driver and data source of an SQL catalog's URI; mode is ro or rw and counts for SQLite. Errors:
// fault.ErrInvalid.
func database(uri, mode string) (driver, source string, err error) {
	scheme, rest, _ := strings.Cut(uri, "://")
	scheme, _, _ = strings.Cut(scheme, "+") // postgresql+psycopg2, as PyIceberg has it
	switch scheme {
	case "sqlite":
		// sqlite:///rel and sqlite:////abs, as SQLAlchemy has them.
		return "sqlite", "file:" + strings.TrimPrefix(rest, "/") + "?mode=" + mode + "&_pragma=busy_timeout(10000)", nil
	case "postgresql", "postgres":
		return "pgx", "postgres://" + rest, nil
	}
	return "", "", fmt.Errorf("SQL catalogs are sqlite:// or postgresql://, not %q: %w", scheme, fault.ErrInvalid)
}

// Close implements io.Closer.
func (s *sqlCatalog) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close database: %w", err)
	}
	return nil
}

func (s *sqlCatalog) load(ctx context.Context, ident []string) (*entry, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	var location sql.NullString
	err := s.db.QueryRowContext(ctx, s.query, s.name, strings.Join(ident[:len(ident)-1], "."), ident[len(ident)-1]).Scan(&location)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, fmt.Errorf("no such table in catalog %q (--catalog-name): %w", s.name, fault.ErrNotFound)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	case location.String == "":
		return nil, fmt.Errorf("the table has no metadata location: %w", fault.ErrCorrupt)
	}
	return &entry{location: location.String}, nil
}
