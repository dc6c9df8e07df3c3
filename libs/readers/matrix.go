package readers

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/fault"
)

//go:embed matrix.yaml
var builtin []byte

// Matrix is what is known of readers and catalogs.
type Matrix struct {
	// Version is the date of the last change of the built-in data.
	Version  string            `yaml:"version" json:"version"`
	Sources  map[string]Source `yaml:"sources" json:"sources"`
	Catalogs []Catalog         `yaml:"catalogs" json:"catalogs"`
	Readers  []Reader          `yaml:"readers" json:"readers"`
}

// Source is where a statement comes from.
type Source struct {
	// Kind is run (somebody ran it), code (somebody read it), issue, docs (a vendor says so) or published.
	Kind string `yaml:"kind" json:"kind"`
	// Date is YYYY-MM-DD or YYYY-MM.
	Date  string `yaml:"date" json:"date"`
	Title string `yaml:"title" json:"title"`
}

// Catalog is a kind of catalog.
type Catalog struct {
	Name  string `yaml:"name" json:"name"`
	Title string `yaml:"title" json:"title"`
	// FormatVersions are what it can store. Empty = not verified; nothing is refused for it.
	FormatVersions []int `yaml:"format_versions,omitempty" json:"format_versions,omitempty"`
	// Deletes are the formats that tables of the catalog can have. Empty = all.
	Deletes []Format `yaml:"deletes,omitempty" json:"deletes,omitempty"`
}

// Reader is an engine or a library.
type Reader struct {
	Name    string   `yaml:"name" json:"name"`
	Title   string   `yaml:"title" json:"title"`
	Aliases []string `yaml:"aliases,omitempty" json:"aliases,omitempty"`
	// Versions says what the statements are about.
	Versions string      `yaml:"versions" json:"versions"`
	Equality *Capability `yaml:"equality" json:"equality"`
	Position *Capability `yaml:"position" json:"position"`
	Vector   *Capability `yaml:"deletion_vector" json:"deletion_vector"`
	// FormatVersions are the only ones that it reads. Empty = not verified; nothing is refused for it.
	FormatVersions []int `yaml:"format_versions,omitempty" json:"format_versions,omitempty"`
	// FileFormats are the only ones of data files that it reads, in lower case. Empty = not verified, as above.
	FileFormats []string `yaml:"file_formats,omitempty" json:"file_formats,omitempty"`
	// Catalogs are the only ones through which it reads. Empty = any.
	Catalogs    []string `yaml:"catalogs,omitempty" json:"catalogs,omitempty"`
	CatalogNote string   `yaml:"catalog_note,omitempty" json:"catalog_note,omitempty"`
}

// Capability is what a reader does with one delete format.
type Capability struct {
	Support Support `yaml:"support" json:"support"`
	// Since is the first version with the support, where known.
	Since string `yaml:"since,omitempty" json:"since,omitempty"`
	// Needs must hold for the deletes, or the reader fails or returns wrong rows.
	Needs []Need `yaml:"needs,omitempty" json:"needs,omitempty"`
	// Sources are names in Matrix.Sources.
	Sources []string `yaml:"sources" json:"sources"`
	// Note is a footnote.
	Note string `yaml:"note,omitempty" json:"note,omitempty"`
}

// Builtin answers the matrix that the binary carries.
func Builtin() (*Matrix, error) { return Parse(builtin) }

// Parse reads a matrix. Errors: fault.ErrInvalid, naming what is wrong.
func Parse(text []byte) (*Matrix, error) {
	m, err := decode(text)
	if err != nil {
		return nil, err
	}
	if err := m.check(); err != nil {
		return nil, err
	}
	return m, nil
}

func decode(text []byte) (*Matrix, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	var m Matrix
	if err := dec.Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("matrix of readers: %w: %w", fault.ErrInvalid, err)
	}
	return &m, nil
}

// Overlay answers the matrix with the entries of text put over it: sources and catalogs replace those of the same
// name; of a reader of the same name, what text states replaces what was there. m is not changed. Errors:
// fault.ErrInvalid.
func (m *Matrix) Overlay(text []byte) (*Matrix, error) {
	over, err := decode(text)
	if err != nil {
		return nil, err
	}
	out := &Matrix{
		Version:  m.Version,
		Sources:  maps.Clone(m.Sources),
		Catalogs: slices.Clone(m.Catalogs),
		Readers:  slices.Clone(m.Readers),
	}
	if over.Version != "" {
		out.Version = over.Version
	}
	if out.Sources == nil {
		out.Sources = map[string]Source{}
	}
	maps.Copy(out.Sources, over.Sources)
	for _, c := range over.Catalogs {
		i := slices.IndexFunc(out.Catalogs, func(have Catalog) bool { return have.Name == c.Name })
		if i < 0 {
			out.Catalogs = append(out.Catalogs, c)
			continue
		}
		out.Catalogs[i] = c
	}
	for _, r := range over.Readers {
		i := slices.IndexFunc(out.Readers, func(have Reader) bool { return have.Name == r.Name })
		if i < 0 {
			out.Readers = append(out.Readers, r)
			continue
		}
		out.Readers[i] = out.Readers[i].with(r)
	}
	return out, out.check()
}

// with answers r with what over states in place of its own.
func (r Reader) with(over Reader) Reader {
	if over.Title != "" {
		r.Title = over.Title
	}
	if over.Versions != "" {
		r.Versions = over.Versions
	}
	if over.Aliases != nil {
		r.Aliases = over.Aliases
	}
	if over.FormatVersions != nil {
		r.FormatVersions = over.FormatVersions
	}
	if over.Catalogs != nil {
		r.Catalogs, r.CatalogNote = over.Catalogs, over.CatalogNote
	}
	for _, f := range Formats() {
		if c := *over.capability(f); c != nil {
			*r.capability(f) = c
		}
	}
	return r
}

func (r *Reader) capability(f Format) **Capability {
	switch f {
	case Equality:
		return &r.Equality
	case Position:
		return &r.Position
	}
	return &r.Vector
}

// Of answers what the reader does with deletes of the format. Never nil in a parsed matrix.
func (r *Reader) Of(f Format) *Capability { return *r.capability(f) }

// check looks for what would make an answer wrong or untraceable.
func (m *Matrix) check() error {
	date := regexp.MustCompile(`^\d{4}-\d{2}(-\d{2})?$`)
	for name, s := range m.Sources {
		if !date.MatchString(s.Date) || s.Title == "" || s.Kind == "" {
			return fmt.Errorf("source %s needs kind, title and a date YYYY-MM[-DD]: %w", name, fault.ErrInvalid)
		}
	}
	catalogs := map[string]bool{}
	for _, c := range m.Catalogs {
		if c.Name == "" || catalogs[c.Name] {
			return fmt.Errorf("catalog %q has no name or is there twice: %w", c.Name, fault.ErrInvalid)
		}
		catalogs[c.Name] = true
	}
	names := map[string]bool{}
	for i := range m.Readers {
		r := &m.Readers[i]
		for _, name := range append([]string{r.Name}, r.Aliases...) {
			if name == "" || names[name] || name != strings.ToLower(name) || strings.ContainsAny(name, ", \t") {
				return fmt.Errorf("reader %q: names are lower-case words and there once: %w", name, fault.ErrInvalid)
			}
			names[name] = true
		}
		if err := m.checkReader(r, catalogs); err != nil {
			return fmt.Errorf("reader %s: %w", r.Name, err)
		}
	}
	return nil
}

func (m *Matrix) checkReader(r *Reader, catalogs map[string]bool) error {
	for _, name := range r.Catalogs {
		if !catalogs[name] {
			return fmt.Errorf("unknown catalog %q: %w", name, fault.ErrInvalid)
		}
	}
	for _, f := range Formats() {
		c := r.Of(f)
		switch {
		case c == nil:
			return fmt.Errorf("says nothing of %s: %w", f.Long(), fault.ErrInvalid)
		case !c.Support.valid():
			return fmt.Errorf("%s: support %q is not one of yes, no, partial, preview, wrong, unknown: %w", f, c.Support, fault.ErrInvalid)
		case len(c.Sources) == 0:
			return fmt.Errorf("%s: no source: %w", f, fault.ErrInvalid)
		}
		for _, s := range c.Sources {
			if _, ok := m.Sources[s]; !ok {
				return fmt.Errorf("%s: unknown source %q: %w", f, s, fault.ErrInvalid)
			}
		}
		for _, n := range c.Needs {
			if !n.valid() {
				return fmt.Errorf("%s: unknown need %q: %w", f, n, fault.ErrInvalid)
			}
		}
	}
	return nil
}

// Reader answers the reader of a name or an alias. Errors: fault.ErrNotFound, with the nearest name.
func (m *Matrix) Reader(name string) (*Reader, error) {
	known := make([]string, 0, len(m.Readers))
	for i := range m.Readers {
		r := &m.Readers[i]
		if r.Name == name || slices.Contains(r.Aliases, name) {
			return r, nil
		}
		known = append(append(known, r.Name), r.Aliases...)
	}
	return nil, fmt.Errorf("reader %q is not in the matrix (did you mean %s?): %w", name, config.Nearest(name, known), fault.ErrNotFound)
}

// Catalog answers the catalog of a name. Errors: fault.ErrNotFound, with the nearest name.
func (m *Matrix) Catalog(name string) (*Catalog, error) {
	known := make([]string, 0, len(m.Catalogs))
	for i := range m.Catalogs {
		if m.Catalogs[i].Name == name {
			return &m.Catalogs[i], nil
		}
		known = append(known, m.Catalogs[i].Name)
	}
	return nil, fmt.Errorf("catalog %q is not in the matrix (did you mean %s?): %w", name, config.Nearest(name, known), fault.ErrNotFound)
}
