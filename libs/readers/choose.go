package readers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// Question is for whom a delete format is looked for.
type Question struct {
	// Readers are names or aliases, at least one.
	Readers []string
	// Catalog through which all of them read; "" = not said.
	Catalog string
	// AllowPreview counts what readers have as a preview.
	AllowPreview bool
}

// Decision is the answer to a question: a choice or a refusal.
type Decision struct {
	Readers []string `json:"readers"`
	Catalog string   `json:"catalog,omitempty"`
	// Choice is nil when there is none; then Refusal says why.
	Choice  *Choice  `json:"choice,omitempty"`
	Refusal *Refusal `json:"refusal,omitempty"`
}

// Choice is a delete format that all readers resolve.
type Choice struct {
	Format        Format `json:"delete_format"`
	FormatVersion int    `json:"format_version"`
	// Dialect is the gateway's warehouse that serves the format; "" if none does.
	Dialect string `json:"dialect,omitempty"`
	// Conditions are what writers must keep for the readers.
	Conditions []Condition `json:"conditions,omitempty"`
}

// Condition is a need and who has it.
type Condition struct {
	Need    Need     `json:"need"`
	Readers []string `json:"readers"`
}

// Refusal says why there is no format for all.
type Refusal struct {
	// Obstacles are, for each format, cheapest first, those who are in the way.
	Obstacles []Obstacle `json:"obstacles"`
	// Pairs of readers that cannot meet. Empty if every two could, but not all together, or if the catalog is in
	// the way.
	Pairs [][2]string `json:"pairs,omitempty"`
}

// Obstacle is why a format is out of the question.
type Obstacle struct {
	// Who is the name of a reader, or catalog NAME.
	Who string `json:"who"`
	// Format is nil when the obstacle is there whatever the format.
	Format *Format `json:"delete_format,omitempty"`
	Why    string  `json:"why"`
}

// String is a sentence without a full stop.
func (o Obstacle) String() string {
	if o.Format == nil {
		return o.Who + " " + o.Why
	}
	return o.Format.Long() + ": " + o.Who + " " + o.Why
}

// Err answers nil for a choice, and for a refusal an error of kind fault.ErrUnsupported that names everybody.
func (d *Decision) Err() error {
	if d.Refusal == nil {
		return nil
	}
	parts := make([]string, 0, len(d.Refusal.Obstacles)+1)
	for _, p := range d.Refusal.Pairs {
		parts = append(parts, p[0]+" and "+p[1]+" cannot meet")
	}
	for _, o := range d.Refusal.Obstacles {
		parts = append(parts, o.String())
	}
	return fmt.Errorf("no delete format for %s: %s: %w", strings.Join(d.Readers, ", "), strings.Join(parts, "; "), fault.ErrUnsupported)
}

// Choose answers the cheapest delete format that all readers resolve through the catalog, or a refusal. Errors:
// fault.ErrNotFound for a name that is not in the matrix, fault.ErrInvalid for no readers.
func (m *Matrix) Choose(q Question) (*Decision, error) {
	who, cat, err := m.resolve(q)
	if err != nil {
		return nil, err
	}
	d := &Decision{Catalog: q.Catalog}
	for _, r := range who {
		d.Readers = append(d.Readers, r.Name)
	}
	var obstacles []Obstacle
	for _, r := range who {
		if why := r.shutOut(cat); why != "" {
			obstacles = append(obstacles, Obstacle{Who: r.Name, Why: why})
		}
	}
	if len(obstacles) > 0 {
		d.Refusal = &Refusal{Obstacles: obstacles}
		return d, nil
	}
	for _, f := range Formats() {
		against := against(f, who, cat, q.AllowPreview)
		if len(against) == 0 {
			d.Choice = &Choice{Format: f, FormatVersion: f.Version(), Dialect: f.Dialect(), Conditions: conditions(f, who)}
			return d, nil
		}
		obstacles = append(obstacles, against...)
	}
	d.Refusal = &Refusal{Obstacles: obstacles, Pairs: pairs(who, cat, q.AllowPreview)}
	return d, nil
}

// Dialect answers the gateway's warehouse for one reader: the cheaper of its two delete formats that the reader
// resolves. Errors: fault.ErrNotFound for an unknown name, fault.ErrUnsupported if the reader takes neither or cannot
// read through the gateway.
func (m *Matrix) Dialect(reader string, allowPreview bool) (string, error) {
	d, err := m.Choose(Question{Readers: []string{reader}, Catalog: Gateway, AllowPreview: allowPreview})
	if err != nil {
		return "", err
	}
	if err := d.Err(); err != nil {
		return "", err
	}
	return d.Choice.Dialect, nil
}

// Gateway is the name of Frazil itself among the catalogs.
const Gateway = "frazil"

func (m *Matrix) resolve(q Question) ([]*Reader, *Catalog, error) {
	if len(q.Readers) == 0 {
		return nil, nil, fmt.Errorf("no readers were named: %w", fault.ErrInvalid)
	}
	var who []*Reader
	for _, name := range q.Readers {
		r, err := m.Reader(name)
		if err != nil {
			return nil, nil, err
		}
		if !slices.Contains(who, r) {
			who = append(who, r)
		}
	}
	if q.Catalog == "" {
		return who, nil, nil
	}
	cat, err := m.Catalog(q.Catalog)
	return who, cat, err
}

// shutOut says why the reader cannot read through the catalog; "" if it can, or if no catalog was named.
func (r *Reader) shutOut(cat *Catalog) string {
	if cat == nil || len(r.Catalogs) == 0 || slices.Contains(r.Catalogs, cat.Name) {
		return ""
	}
	why := fmt.Sprintf("does not read through %s (only %s", cat.Title, strings.Join(r.Catalogs, ", "))
	if r.CatalogNote != "" {
		why += ": " + r.CatalogNote
	}
	return why + ")"
}

func against(f Format, who []*Reader, cat *Catalog, allowPreview bool) []Obstacle {
	var out []Obstacle
	if cat != nil {
		switch {
		case len(cat.Deletes) > 0 && !slices.Contains(cat.Deletes, f):
			out = append(out, Obstacle{Who: cat.Title, Format: &f, Why: "never has them"})
		case len(cat.FormatVersions) > 0 && !slices.Contains(cat.FormatVersions, f.Version()):
			out = append(out, Obstacle{Who: cat.Title, Format: &f, Why: fmt.Sprintf("has no tables of format version %d", f.Version())})
		}
	}
	for _, r := range who {
		if len(r.FormatVersions) > 0 && !slices.Contains(r.FormatVersions, f.Version()) {
			out = append(out, Obstacle{Who: r.Name, Format: &f, Why: fmt.Sprintf("does not read tables of format version %d", f.Version())})
			continue
		}
		c := r.Of(f)
		if c.Support.Resolves(allowPreview) {
			continue
		}
		why := c.Support.reason()
		if c.Note != "" {
			why += " (" + c.Note + ")"
		}
		out = append(out, Obstacle{Who: r.Name, Format: &f, Why: why})
	}
	return out
}

func conditions(f Format, who []*Reader) []Condition {
	var out []Condition
	for _, r := range who {
		for _, n := range r.Of(f).Needs {
			i := slices.IndexFunc(out, func(c Condition) bool { return c.Need == n })
			if i < 0 {
				out = append(out, Condition{Need: n})
				i = len(out) - 1
			}
			out[i].Readers = append(out[i].Readers, r.Name)
		}
	}
	return out
}

// pairs answers every two of the readers that have no format in common, and with itself one that has none at all.
func pairs(who []*Reader, cat *Catalog, allowPreview bool) [][2]string {
	var out [][2]string
	meet := func(rs ...*Reader) bool {
		return slices.ContainsFunc(Formats(), func(f Format) bool { return len(against(f, rs, cat, allowPreview)) == 0 })
	}
	for i, a := range who {
		if !meet(a) {
			continue // its own obstacles say so
		}
		for _, b := range who[i+1:] {
			if meet(b) && !meet(a, b) {
				out = append(out, [2]string{a.Name, b.Name})
			}
		}
	}
	return out
}
