// Package registrytest is a small schema registry for tests: an http.Handler with the reading half of the Confluent
// API.
package registrytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Entry is one version of a subject, in the shape in which the API and registry dumps have it.
type Entry struct {
	Subject    string      `json:"subject"`
	Version    int         `json:"version"`
	ID         int32       `json:"id"`
	Schema     string      `json:"schema"`
	SchemaType string      `json:"schemaType,omitempty"` // empty means AVRO
	References []Reference `json:"references,omitempty"`
	Deleted    bool        `json:"-"` // softly: answered only if asked for
}

// Reference is a schema that an Entry names.
type Reference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// Handler serves entries. It is safe for concurrent use.
type Handler struct {
	mu       sync.Mutex
	entries  []Entry
	status   int    // of every answer, if not 0
	auth     string // the Authorization header that is asked for, if not empty
	requests int
}

var _ http.Handler = (*Handler)(nil)

// New makes a registry of entries.
func New(entries ...Entry) *Handler {
	return &Handler{entries: slices.Clone(entries)}
}

// Load makes a registry of a dump: a JSON array of entries.
func Load(dump io.Reader) (*Handler, error) {
	var entries []Entry
	if err := json.NewDecoder(dump).Decode(&entries); err != nil {
		return nil, fmt.Errorf("read registry dump: %w", err)
	}
	return New(entries...), nil
}

// Register adds the next version of a subject under a new id and answers the entry. Registering a known text of a
// subject again answers the entry that there is.
func (h *Handler) Register(subject, schemaType, schema string, refs ...Reference) Entry {
	h.mu.Lock()
	defer h.mu.Unlock()
	e := Entry{Subject: subject, Version: 1, ID: 1, Schema: schema, SchemaType: schemaType, References: refs}
	for _, known := range h.entries {
		e.ID = max(e.ID, known.ID+1)
		if known.Subject == subject {
			if known.Schema == schema {
				return known
			}
			e.Version = max(e.Version, known.Version+1)
		}
	}
	h.entries = append(h.entries, e)
	return e
}

// Delete deletes a version softly: it is answered by id, and by subject only if deleted ones are asked for.
func (h *Handler) Delete(subject string, version int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, e := range h.entries {
		if e.Subject == subject && e.Version == version {
			h.entries[i].Deleted = true
		}
	}
}

// Fail makes every answer this status with an error body; 0 ends it.
func (h *Handler) Fail(status int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.status = status
}

// RequireAuthorization refuses requests whose Authorization header is not this one; "" lets all in.
func (h *Handler) RequireAuthorization(header string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.auth = header
}

// Requests is the number of requests so far.
func (h *Handler) Requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.requests
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests++
	status, auth, entries := h.status, h.auth, slices.Clone(h.entries)
	h.mu.Unlock()
	w.Header().Set("Content-Type", "application/vnd.schemaregistry.v1+json")
	switch {
	case status != 0:
		refuse(w, status, 50001, "told to fail")
	case auth != "" && r.Header.Get("Authorization") != auth:
		refuse(w, http.StatusUnauthorized, 40101, "who are you")
	case r.Method != http.MethodGet:
		refuse(w, http.StatusMethodNotAllowed, 405, "read only")
	default:
		answer(w, r, entries)
	}
}

func answer(w http.ResponseWriter, r *http.Request, entries []Entry) {
	path := strings.Split(strings.Trim(r.URL.EscapedPath(), "/"), "/")
	for i, escaped := range path {
		// EscapedPath is always well-formed.
		path[i], _ = url.PathUnescape(escaped)
	}
	deleted := r.URL.Query().Get("deleted") == "true"
	switch {
	case len(path) == 1 && path[0] == "subjects":
		answerSubjects(w, entries, deleted)
	case len(path) == 3 && path[0] == "schemas" && path[1] == "ids":
		answerID(w, entries, path[2])
	case len(path) == 3 && path[0] == "subjects" && path[2] == "versions":
		answerVersions(w, entries, path[1], deleted)
	case len(path) == 4 && path[0] == "subjects" && path[2] == "versions":
		answerVersion(w, entries, path[1], path[3], deleted)
	default:
		refuse(w, http.StatusNotFound, 404, "no such resource")
	}
}

func answerSubjects(w http.ResponseWriter, entries []Entry, deleted bool) {
	names := []string{}
	for _, e := range entries {
		if !e.Deleted || deleted {
			names = append(names, e.Subject)
		}
	}
	slices.Sort(names)
	write(w, slices.Compact(names))
}

func answerID(w http.ResponseWriter, entries []Entry, id string) {
	for _, e := range entries {
		if strconv.Itoa(int(e.ID)) == id {
			write(w, map[string]any{"schema": e.Schema, "schemaType": e.SchemaType, "references": e.References})
			return
		}
	}
	refuse(w, http.StatusNotFound, 40403, "Schema not found")
}

func answerVersions(w http.ResponseWriter, entries []Entry, subject string, deleted bool) {
	var versions []int
	for _, e := range entries {
		if e.Subject == subject && (!e.Deleted || deleted) {
			versions = append(versions, e.Version)
		}
	}
	if len(versions) == 0 {
		refuse(w, http.StatusNotFound, 40401, "Subject not found")
		return
	}
	slices.Sort(versions)
	write(w, versions)
}

func answerVersion(w http.ResponseWriter, entries []Entry, subject, version string, deleted bool) {
	best := -1
	for i, e := range entries {
		if e.Subject != subject || (e.Deleted && !deleted) {
			continue
		}
		if strconv.Itoa(e.Version) == version {
			best = i
			break
		}
		if version == "latest" && (best < 0 || e.Version > entries[best].Version) {
			best = i
		}
	}
	if best < 0 {
		refuse(w, http.StatusNotFound, 40402, "Version not found")
		return
	}
	write(w, entries[best])
}

func refuse(w http.ResponseWriter, status, code int, message string) {
	w.WriteHeader(status)
	write(w, map[string]any{"error_code": code, "message": message})
}

// write sends a JSON body. The client that hung up is the only one who could be told of an error.
func write(w io.Writer, body any) {
	_ = json.NewEncoder(w).Encode(body)
}
