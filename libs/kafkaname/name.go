// Package kafkaname says which topics are tables and what they are called.
package kafkaname

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// Table is the table name of a topic: lower case, every character outside [a-z0-9_] as an underscore.
func Table(topic string) string {
	b := []byte(strings.ToLower(topic))
	for i, c := range b {
		if !isTableChar(c) {
			b[i] = '_'
		}
	}
	return string(b)
}

// ValidTable reports whether a configured name can be a table name.
func ValidTable(name string) bool {
	for i := range len(name) {
		if !isTableChar(name[i]) {
			return false
		}
	}
	return name != ""
}

func isTableChar(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '_'
}

// viewSuffixes are what the names of a table's other views end in. They are taken whether or not the view is
// served: a name must not change its meaning later. Where the topic that the view would be of does not exist, nobody
// else has a right to the name and its topic keeps it; if that topic comes, the name answers the error, never other rows.
func viewSuffixes() []string { return []string{"__changes", "__deleted_keys", "__errors"} }

// Named is a topic and the table name that it gets.
type Named struct {
	Topic, Table string
}

// Listing is the tables of a cluster by name. It is immutable.
type Listing struct {
	names  []string
	topics map[string]string // table -> topic; of colliding topics the first by name
	clash  map[string]error  // table -> why it can't be loaded
}

// NewListing makes a listing. Topics that want the same name, or the name of another one's view, are listed once,
// and loading that name fails with an error that says who collides.
func NewListing(topics []Named) *Listing {
	topics = slices.Clone(topics)
	slices.SortFunc(topics, func(a, b Named) int {
		return cmp.Or(cmp.Compare(a.Table, b.Table), cmp.Compare(a.Topic, b.Topic))
	})
	l := &Listing{topics: make(map[string]string, len(topics)), clash: map[string]error{}}
	for _, t := range topics {
		if first, taken := l.topics[t.Table]; taken {
			if l.clash[t.Table] == nil {
				l.clash[t.Table] = fmt.Errorf("topics %q and %q both have the table name %q: set tables.%s.name: %w",
					first, t.Topic, t.Table, t.Topic, fault.ErrInvalid)
			}
			continue
		}
		l.topics[t.Table] = t.Topic
		l.names = append(l.names, t.Table)
	}
	for _, name := range l.names {
		for _, suffix := range viewSuffixes() {
			base, ok := strings.CutSuffix(name, suffix)
			if owner := l.topics[base]; ok && owner != "" && l.clash[name] == nil {
				l.clash[name] = fmt.Errorf("topic %q has the table name %q, which is a view of topic %q: set tables.%s.name: %w",
					l.topics[name], name, owner, l.topics[name], fault.ErrInvalid)
			}
		}
	}
	return l
}

// Clashes answers what is wrong with names, by table name. fault.ErrInvalid, each.
func (l *Listing) Clashes() []error {
	var all []error
	for _, table := range slices.Sorted(maps.Keys(l.clash)) {
		all = append(all, l.clash[table])
	}
	return all
}

// Topic answers the topic of a table. Errors: fault.ErrNotFound, fault.ErrInvalid (the name is not one topic's).
func (l *Listing) Topic(table string) (string, error) {
	topic, ok := l.topics[table]
	if !ok {
		return "", fmt.Errorf("no table %q: %w", table, fault.ErrNotFound)
	}
	return topic, l.clash[table]
}

// Page answers up to size tables whose names come after the given one, sorted by name; size 0 = all. more is
// true if others follow.
func (l *Listing) Page(after string, size int) (page []Named, more bool) {
	first, found := slices.BinarySearch(l.names, after)
	if found {
		first++
	}
	names := l.names[first:]
	if size > 0 && len(names) > size {
		names, more = names[:size], true
	}
	page = make([]Named, len(names))
	for i, n := range names {
		page[i] = Named{Topic: l.topics[n], Table: n}
	}
	return page, more
}
