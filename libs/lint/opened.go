package lint

import (
	"context"
	"errors"
	"fmt"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/readers"
)

// File is an open object.
type File = icebergscan.File

// Files opens objects by their full location. Errors: fault.ErrNotFound for what is not there.
type Files interface {
	File(ctx context.Context, location string) (File, error)
}

// Deletes are the position deletes and deletion vectors that Run has seen, for OpenDeletes.
type Deletes struct {
	positions []positionFile
	vectors   []vectorFile
	live      map[string]int64 // record counts of data files that may be named
}

// Count answers how many files OpenDeletes reads.
func (d *Deletes) Count() int { return len(d.positions) + len(d.vectors) }

type positionFile struct {
	path, format  string
	records, size int64
	target        string // "" = may be about several data files
	lower, upper  string
	bounded       bool
}

type vectorFile struct {
	path, target          string
	offset, size, records int64
}

// OpenDeletes opens every position delete file and deletion vector and checks what the metadata cannot tell: order,
// counts, checksums, and the paths inside. One file is open at a time. What is found about files is a finding, also
// that a file is missing or corrupt; an error is one of the store.
func OpenDeletes(ctx context.Context, files Files, d *Deletes, cfg Config) ([]Finding, error) {
	o := &opened{cfg: cfg, found: newList(cfg.MaxFiles), kept: d}
	for path := range d.live {
		if o.even == nil {
			o.even = map[string]string{}
		}
		o.even[even(path)] = path
	}
	for i := range d.positions {
		if err := o.with(ctx, files, d.positions[i].path, func(f File) error { return o.positions(f, &d.positions[i]) }); err != nil {
			return nil, err
		}
	}
	for i := range d.vectors {
		if err := o.with(ctx, files, d.vectors[i].path, func(f File) error { return o.vector(f, &d.vectors[i]) }); err != nil {
			return nil, err
		}
	}
	return o.found.sorted(), nil
}

type opened struct {
	cfg   Config
	found *list
	kept  *Deletes
	even  map[string]string // spelling evened out -> path as written
}

// with opens a file for a check. A file that is not there, or not what it should be, is a finding.
func (o *opened) with(ctx context.Context, files Files, path string, check func(File) error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	f, err := files.File(ctx, path)
	if errors.Is(err, fault.ErrNotFound) {
		o.found.add("delete-file-missing", Error, nil, "a delete file is not in the store: reading fails", path)
		return nil
	}
	if err != nil {
		return fmt.Errorf("open delete file: %w", err)
	}
	err = check(f)
	if errors.Is(err, fault.ErrCorrupt) {
		o.found.add("delete-file-corrupt", Error, nil, "a delete file cannot be read: "+err.Error(), path)
		err = nil
	}
	return errors.Join(err, f.Close())
}

// needing answers the declared readers that have the need for a format.
func (o *opened) needing(f readers.Format, n readers.Need) []string {
	var out []string
	for _, d := range o.cfg.Readers {
		for _, have := range d.Of(f).Needs {
			if have == n {
				out = append(out, d.Name)
			}
		}
	}
	return out
}

// breach is an error for the declared readers that have the need, and a warning if none of them is declared.
func (o *opened) breach(check string, f readers.Format, n readers.Need, text, path string) {
	if names := o.needing(f, n); len(names) > 0 {
		o.found.add(check, Error, names, text, path)
		return
	}
	o.found.add(check, Warning, nil, text, path)
}
