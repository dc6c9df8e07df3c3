package catalogs

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"strings"

	iceio "github.com/apache/iceberg-go/io"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
)

// Commit applies a commit to the version of the table that was loaded. It is sent once. Errors: fault.ErrConflict if
// another commit was faster; of the other kinds, fault.ErrInvalid, ErrDenied, ErrUnauthenticated, ErrNotFound and
// ErrUnsupported say that it was refused; after all others it may have happened, or may still happen.
func (c *Catalog) Commit(ctx context.Context, t *Table, commit *icebergcommit.Commit) error {
	if err := c.backend.commit(ctx, strings.Split(t.Name, "."), t, commit); err != nil {
		return fmt.Errorf("commit to table %s: %w", t.Name, err)
	}
	return nil
}

// Write makes an object of the body. A local file that is being written can be seen; nothing names it yet.
func (s *Store) Write(_ context.Context, location string, body []byte) error {
	w, ok := s.IO.(iceio.WriteFileIO)
	if !ok {
		return fmt.Errorf("the store of %s cannot be written to: %w", location, fault.ErrUnsupported)
	}
	if err := w.WriteFile(location, body); err != nil {
		return fmt.Errorf("write object %s: %w", location, err)
	}
	return nil
}

// Remove removes an object. What is not there is no error.
func (s *Store) Remove(_ context.Context, location string) error {
	if err := s.IO.Remove(location); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove object %s: %w", location, err)
	}
	return nil
}

func (r *restCatalog) commit(ctx context.Context, ident []string, _ *Table, c *icebergcommit.Commit) error {
	updates, err := c.Updates()
	if err != nil {
		return err
	}
	body, err := json.Marshal(map[string]any{
		"identifier":   map[string]any{"namespace": ident[:len(ident)-1], "name": ident[len(ident)-1]},
		"requirements": c.Requirements(),
		"updates":      updates,
	})
	if err != nil {
		return fmt.Errorf("encode commit: %w", err)
	}
	var answer json.RawMessage
	err = r.door.once(ctx, http.MethodPost, r.at(ident), map[string]string{"Content-Type": "application/json"}, body, &answer)
	if errors.Is(err, fault.ErrCorrupt) { // it was applied, and the answer says it badly
		return fmt.Errorf("%w: %s", fault.ErrUnavailable, err.Error())
	}
	return err
}

// next writes the metadata of a commit for catalogs that keep its location.
func next(ctx context.Context, t *Table, c *icebergcommit.Commit) (string, error) {
	text, err := c.Apply(t.Raw, t.MetadataLocation)
	if err != nil {
		return "", err
	}
	at := icebergcommit.NextMetadata(t.Meta, t.MetadataLocation)
	return at, t.Store.Write(ctx, at, text)
}

func (s *sqlCatalog) commit(ctx context.Context, ident []string, t *Table, c *icebergcommit.Commit) (err error) {
	driver, source, err := database(s.uri, "rw")
	if err != nil {
		return err
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrInvalid, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	at, err := next(ctx, t, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	done, err := db.ExecContext(ctx, s.update, at, t.MetadataLocation,
		s.name, strings.Join(ident[:len(ident)-1], "."), ident[len(ident)-1], t.MetadataLocation)
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	n, err := done.RowsAffected()
	if err != nil {
		return fmt.Errorf("%w: %w", fault.ErrUnavailable, err)
	}
	if n == 0 {
		return errors.Join(fmt.Errorf("the table has another version: %w", fault.ErrConflict), t.Store.Remove(ctx, at))
	}
	return nil
}

// tableInput are the keys of Glue's Table that UpdateTable takes.
func tableInput() []string {
	return []string{
		"Name", "Description", "Owner", "LastAccessTime", "LastAnalyzedTime", "Retention", "StorageDescriptor", "PartitionKeys",
		"ViewOriginalText", "ViewExpandedText", "TableType", "Parameters", "TargetTable",
	}
}

func (g *glueCatalog) commit(ctx context.Context, ident []string, t *Table, c *icebergcommit.Commit) error {
	var now map[string]json.RawMessage
	if err := json.Unmarshal(t.origin, &now); err != nil {
		return fmt.Errorf("table of Glue: %w: %w", fault.ErrCorrupt, err)
	}
	var version string
	if now["VersionId"] != nil {
		if err := json.Unmarshal(now["VersionId"], &version); err != nil {
			return fmt.Errorf("version of Glue: %w: %w", fault.ErrCorrupt, err)
		}
	}
	if version == "" {
		return fmt.Errorf("the Glue table has no version, so a commit would not be safe: %w", fault.ErrUnsupported)
	}
	params := map[string]string{}
	if err := json.Unmarshal(now["Parameters"], &params); err != nil {
		return fmt.Errorf("parameters of Glue: %w: %w", fault.ErrCorrupt, err)
	}
	at, err := next(ctx, t, c)
	if err != nil {
		return err
	}
	params = maps.Clone(params)
	params["previous_metadata_location"], params["metadata_location"] = t.MetadataLocation, at
	input := map[string]any{}
	for _, key := range tableInput() {
		if now[key] != nil {
			input[key] = now[key]
		}
	}
	input["Parameters"] = params
	request := map[string]any{"DatabaseName": ident[0], "TableInput": input, "VersionId": version, "SkipArchive": true}
	if g.catalogID != "" {
		request["CatalogId"] = g.catalogID
	}
	body, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("encode request: %w", err)
	}
	var answer json.RawMessage
	headers := map[string]string{"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": "AWSGlue.UpdateTable"}
	err = g.door.once(ctx, http.MethodPost, g.endpoint, headers, body, &answer)
	if errors.Is(err, fault.ErrConflict) {
		return errors.Join(err, t.Store.Remove(ctx, at))
	}
	return err
}
