// Package authn knows who is asking the catalog and which tables they may see.
package authn

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// Anonymous is the principal of everybody when no token is asked for.
const Anonymous = "anonymous"

// Token is a bearer token and what its holder may see.
type Token struct {
	Secret    string
	Principal string
	// Tables are globs over table names or, where they hold a dot, over namespace.table.
	Tables []string
	// Write: the holder may tag the tables of this token.
	Write bool
}

// Principal is somebody who was recognised. The zero value may see nothing.
type Principal struct {
	Name   string
	tables []string
	writes []string // globs like tables
}

// Sees reports whether the principal may know of a table at all.
func (p Principal) Sees(namespace, table string) bool { return anyMatches(p.tables, namespace, table) }

// MayWrite reports whether the principal may change what Frazil keeps of a table beside its topic: its tags.
func (p Principal) MayWrite(namespace, table string) bool {
	return anyMatches(p.writes, namespace, table)
}

// Writes reports whether there can be a table that the principal may write.
func (p Principal) Writes() bool { return len(p.writes) > 0 }

func anyMatches(globs []string, namespace, table string) bool {
	for _, glob := range globs {
		name := table
		if strings.Contains(glob, ".") {
			name = namespace + "." + table
		}
		if ok, err := path.Match(glob, name); ok && err == nil {
			return true
		}
	}
	return false
}

// Authenticator recognises principals. It is immutable and safe for concurrent use.
type Authenticator struct {
	open    bool
	entries []entry
	byName  map[string]Principal
}

type entry struct {
	digest    [sha256.Size]byte
	principal Principal
}

// Open recognises everybody as Anonymous, who sees everything and may write it. It is for loopback only.
func Open() *Authenticator {
	all := []string{"*"}
	return &Authenticator{open: true, byName: map[string]Principal{Anonymous: {Name: Anonymous, tables: all, writes: all}}}
}

// WithTokens recognises the holders of the tokens. Two tokens of one principal see the tables of both.
func WithTokens(tokens []Token) (*Authenticator, error) {
	if len(tokens) == 0 {
		return nil, errors.New("authenticate by token: no token is configured")
	}
	a := &Authenticator{byName: map[string]Principal{}}
	for _, t := range tokens {
		if t.Secret == "" || t.Principal == "" {
			return nil, fmt.Errorf("authenticate by token: token or principal of %q is empty", t.Principal)
		}
		for _, g := range t.Tables {
			if _, err := path.Match(g, ""); err != nil {
				return nil, fmt.Errorf("authenticate by token: table glob %q: %w", g, err)
			}
		}
		p := a.byName[t.Principal]
		p.Name = t.Principal
		p.tables = append(p.tables[:len(p.tables):len(p.tables)], t.Tables...)
		if t.Write {
			p.writes = append(p.writes[:len(p.writes):len(p.writes)], t.Tables...)
		}
		a.byName[t.Principal] = p
	}
	for _, t := range tokens {
		a.entries = append(a.entries, entry{sha256.Sum256([]byte(t.Secret)), a.byName[t.Principal]})
	}
	return a, nil
}

// IsOpen reports whether no token is asked for.
func (a *Authenticator) IsOpen() bool { return a.open }

// Request recognises the sender of a request by its bearer token. fault.ErrUnauthenticated: none or an unknown
// one. The time it takes does not depend on how much of a token is right.
func (a *Authenticator) Request(r *http.Request) (Principal, error) {
	if a.open {
		return a.byName[Anonymous], nil
	}
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return Principal{}, fmt.Errorf("%w: a bearer token is required", fault.ErrUnauthenticated)
	}
	digest := sha256.Sum256([]byte(strings.TrimSpace(token)))
	found := -1
	for i := range a.entries {
		if subtle.ConstantTimeCompare(digest[:], a.entries[i].digest[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Principal{}, fmt.Errorf("%w: the bearer token is not known", fault.ErrUnauthenticated)
	}
	return a.entries[found].principal, nil
}

// Named answers the principal of that name, for credentials that were vended to it before.
func (a *Authenticator) Named(name string) (Principal, bool) {
	p, ok := a.byName[name]
	return p, ok
}
