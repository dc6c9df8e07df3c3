package httpregistry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/registry"
)

const (
	// maxAnswer bounds one answer, in bytes. The largest schemas known are a few MB.
	maxAnswer = 32 << 20
	// maxReferences bounds the references of one schema, so that a registry that names them in a circle is found out.
	maxReferences = 1000
	// acceptable is what the API asks clients to send.
	acceptable = "application/vnd.schemaregistry.v1+json, application/json"
)

// wireSchema is a schema as the API answers it. By id it lacks the subject, the version and the id.
type wireSchema struct {
	Subject    string          `json:"subject"`
	Version    int             `json:"version"`
	ID         int32           `json:"id"`
	Schema     string          `json:"schema"`
	SchemaType string          `json:"schemaType"` // absent means AVRO
	References []wireReference `json:"references"`
}

type wireReference struct {
	Name    string `json:"name"`
	Subject string `json:"subject"`
	Version int    `json:"version"`
}

// wireError is the body of an answer that is not a success.
type wireError struct {
	Code    int    `json:"error_code"`
	Message string `json:"message"`
}

// resolve fetches what the schema refers to, directly and indirectly. The references of the result are in an order
// in which each comes after those that it names itself.
func (c *Client) resolve(ctx context.Context, wire wireSchema) (registry.Schema, error) {
	s := registry.Schema{ID: wire.ID, Type: wire.SchemaType, Text: wire.Schema}
	if s.Type == "" {
		s.Type = "AVRO"
	}
	seen := map[wireReference]bool{}
	var visit func(refs []wireReference) error
	visit = func(refs []wireReference) error {
		for _, ref := range refs {
			if seen[ref] {
				continue
			}
			if seen[ref] = true; len(seen) > maxReferences {
				return fmt.Errorf("schema %d has more than %d references: %w", wire.ID, maxReferences, fault.ErrUnsupported)
			}
			target, err := c.version(ctx, ref.Subject, ref.Version)
			if errors.Is(err, fault.ErrNotFound) {
				// The schema itself exists: a registry that lost a part of it says nothing about the record.
				return fmt.Errorf("reference to %s version %d: registry does not have it: %w", ref.Subject, ref.Version, fault.ErrUnavailable)
			}
			if err != nil {
				return fmt.Errorf("reference to %s version %d: %w", ref.Subject, ref.Version, err)
			}
			if err := visit(target.References); err != nil {
				return err
			}
			s.References = append(s.References, registry.Reference{
				Name: ref.Name, Subject: ref.Subject, Version: ref.Version, Text: target.Schema,
			})
		}
		return nil
	}
	return s, visit(wire.References)
}

// get asks for a path until it gets an answer that settles the question, and decodes it into out.
func (c *Client) get(ctx context.Context, path string, query url.Values, out any) error {
	backoff := c.cfg.Backoff
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, path, query, out)
		if err == nil || !errors.Is(err, fault.ErrUnavailable) || attempt == c.cfg.Attempts {
			return err
		}
		// Half of the wait is random, so that replicas that failed together do not come back together.
		wait := time.NewTimer(backoff/2 + rand.N(backoff/2+1))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return context.Cause(ctx)
		}
		backoff *= 2
	}
}

func (c *Client) once(ctx context.Context, path string, query url.Values, out any) error {
	target := c.base + path
	if len(query) > 0 {
		target += "?" + query.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return fmt.Errorf("make request: %w", fault.ErrInvalid)
	}
	req.Header.Set("Accept", acceptable)
	if c.cfg.Token != "" {
		req.Header.Set("Authorization", "Bearer "+c.cfg.Token)
	} else if c.cfg.Username != "" {
		req.SetBasicAuth(c.cfg.Username, c.cfg.Password)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The text of a transport error holds the host, which must not reach clients.
		return fmt.Errorf("schema registry does not answer: %w", fault.ErrUnavailable)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return fmt.Errorf("schema registry broke off its answer: %w", fault.ErrUnavailable)
	}
	if len(body) > maxAnswer {
		return fmt.Errorf("schema registry answered more than %d bytes: %w", maxAnswer, fault.ErrUnsupported)
	}
	if resp.StatusCode != http.StatusOK {
		return refusal(resp.StatusCode, body)
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("schema registry answered something that is not its API: %w", fault.ErrUnavailable)
	}
	return nil
}

// refusal sorts an answer that is not a success. A 404 counts as the registry's word only with the API's own error
// codes (40401 subject, 40402 version, 40403 schema): a proxy's or a wrong path's 404 must not decide that a record is
// bad.
func refusal(status int, body []byte) error {
	var e wireError
	isItsWord := json.Unmarshal(body, &e) == nil && e.Code/100 == http.StatusNotFound
	switch {
	case status == http.StatusNotFound && isItsWord:
		return fmt.Errorf("schema registry has no such entry (error code %d): %w", e.Code, fault.ErrNotFound)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("schema registry answered %d: %w", status, fault.ErrDenied)
	default:
		return fmt.Errorf("schema registry answered %d: %w", status, fault.ErrUnavailable)
	}
}
