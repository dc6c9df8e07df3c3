package lint

import (
	"cmp"
	"slices"
	"strings"
)

// Severity says what a finding means.
type Severity string

// The severities.
const (
	// Error: a declared reader cannot read the table, or some reader returns wrong rows without an error.
	Error Severity = "error"
	// Warning: reading is slow or fragile, or wrong in readers that were not declared.
	Warning Severity = "warning"
	// Note: nothing is wrong.
	Note Severity = "note"
)

// Rank orders severities, the worst first.
func (s Severity) Rank() int { return slices.Index([]Severity{Error, Warning, Note}, s) }

// Finding is one thing that was found, in one or many files.
type Finding struct {
	// Check is the stable name of what was looked for.
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	// Readers are the declared readers that it is about; empty = whoever reads.
	Readers []string `json:"readers,omitempty"`
	Text    string   `json:"text"`
	// Count is how many files, Files the first of them.
	Count int64    `json:"count,omitempty"`
	Files []string `json:"files,omitempty"`
}

// list collects findings of one check: files of the same text and readers are one finding.
type list struct {
	max   int
	items []*Finding
	at    map[string]int
}

func newList(maxFiles int) *list { return &list{max: maxFiles, at: map[string]int{}} }

// add counts a file for a finding, and answers the finding; file may be empty.
func (l *list) add(check string, s Severity, readers []string, text, file string) *Finding {
	key := check + "\x00" + string(s) + "\x00" + strings.Join(readers, ",") + "\x00" + text
	i, ok := l.at[key]
	if !ok {
		i = len(l.items)
		l.at[key] = i
		l.items = append(l.items, &Finding{Check: check, Severity: s, Readers: slices.Clone(readers), Text: text})
	}
	f := l.items[i]
	if file == "" {
		return f
	}
	f.Count++
	if l.max == 0 || len(f.Files) < l.max {
		f.Files = append(f.Files, file)
	}
	return f
}

// sorted answers the findings, the worst first, in a stable order.
func (l *list) sorted() []Finding {
	out := make([]Finding, 0, len(l.items))
	for _, f := range l.items {
		out = append(out, *f)
	}
	slices.SortStableFunc(out, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Severity.Rank(), b.Severity.Rank()), strings.Compare(a.Check, b.Check), slices.Compare(a.Readers, b.Readers), strings.Compare(a.Text, b.Text))
	})
	return out
}
