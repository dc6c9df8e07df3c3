package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/frazil-io/frazil/services/edge/internal/object"
)

// lastModified is the same for every object, at any time, on every edge: an object with a given name has never
// been modified, and two answers about it must not differ.
func lastModified() time.Time { return time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC) }

// brokenBody is a failure after the status was sent.
type brokenBody struct{ err error }

// Error is the cause's text.
func (e *brokenBody) Error() string { return "answer broke off: " + e.err.Error() }

// Unwrap is the cause.
func (e *brokenBody) Unwrap() error { return e.err }

// object answers GET and HEAD of an object.
func (h *Handler) object(ctx context.Context, release func() bool, q *request) error {
	q.w.Operation = "GetObject"
	if q.r.Method == http.MethodHead {
		q.w.Operation = "HeadObject"
	}
	if err := allowed(q.claims, q.key); err != nil {
		return err
	}
	info, err := h.deps.Store.Stat(ctx, q.key)
	if err != nil {
		return err
	}
	setHeaders(q, info)
	if stop := conditions(q.r.Header, info.ETag); stop != 0 {
		return h.conditionFailed(q, stop, info)
	}
	rng, err := parseRange(q.r.Header.Get("Range"), info.Size)
	if err != nil {
		return err
	}
	status, header := http.StatusOK, q.w.Header()
	header.Set("Content-Length", strconv.FormatInt(rng.length, 10))
	if rng.partial {
		status = http.StatusPartialContent
		header.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", rng.offset, rng.offset+rng.length-1, info.Size))
	}
	if q.r.Method == http.MethodHead || rng.length == 0 {
		override(header, q.query)
		q.w.WriteHeader(status)
		return nil
	}
	body, err := h.deps.Store.Open(ctx, info, rng.offset, rng.length)
	if err != nil {
		header.Del("Content-Range")
		return err
	}
	defer body.Close()
	if !release() {
		header.Del("Content-Range")
		return errHeld
	}
	override(header, q.query)
	q.w.WriteHeader(status)
	_, err = body.Copy(q.w, http.NewResponseController(q.w).Flush)
	return bodyError(q, err)
}

// bodyError is what the end of a body means: nothing if the client left.
func bodyError(q *request, err error) error {
	var sink *object.SinkError
	if clientLeft := errors.As(err, &sink) || q.r.Context().Err() != nil; err != nil && !clientLeft {
		return &brokenBody{err}
	}
	return nil
}

func setHeaders(q *request, info object.Info) {
	header := q.w.Header()
	header["ETag"] = []string{info.ETag} // as S3 spells it
	header.Set("Last-Modified", lastModified().Format(http.TimeFormat))
	header.Set("Accept-Ranges", "bytes")
	header.Set("Content-Type", info.ContentType)
	// Same name, same bytes; but only for the one who may read them.
	header.Set("Cache-Control", "private, immutable, max-age=3600")
}

// override applies the response-* parameters of GetObject.
func override(header http.Header, query url.Values) {
	for param, name := range map[string]string{
		"response-content-type": "Content-Type", "response-content-language": "Content-Language",
		"response-expires": "Expires", "response-cache-control": "Cache-Control",
		"response-content-disposition": "Content-Disposition", "response-content-encoding": "Content-Encoding",
	} {
		if v := query.Get(param); v != "" {
			header.Set(name, v)
		}
	}
}

func (h *Handler) conditionFailed(q *request, status int, info object.Info) error {
	if status == http.StatusNotModified {
		q.w.Header().Del("Content-Type")
		q.w.WriteHeader(status)
		return nil
	}
	return &refusal{status: status, code: "PreconditionFailed", message: "At least one of the pre-conditions you specified did not hold", size: info.Size}
}

// conditions answers 0 to go on, 304 or 412 (RFC 9110, 13.2.2).
func conditions(h http.Header, etag string) int {
	modified := lastModified()
	if match := h.Values("If-Match"); len(match) > 0 {
		if !matches(match, etag, false) {
			return http.StatusPreconditionFailed
		}
	} else if t, err := http.ParseTime(h.Get("If-Unmodified-Since")); err == nil && modified.After(t) {
		return http.StatusPreconditionFailed
	}
	if none := h.Values("If-None-Match"); len(none) > 0 {
		if matches(none, etag, true) {
			return http.StatusNotModified
		}
	} else if t, err := http.ParseTime(h.Get("If-Modified-Since")); err == nil && !modified.After(t) {
		return http.StatusNotModified
	}
	return 0
}

// matches compares a list of entity tags. Clients also send them without quotes.
func matches(headers []string, etag string, weak bool) bool {
	for _, header := range headers {
		for tag := range strings.SplitSeq(header, ",") {
			tag = strings.TrimSpace(tag)
			if weak {
				tag = strings.TrimPrefix(tag, "W/")
			}
			if tag == "*" || tag == etag || tag == strings.Trim(etag, `"`) {
				return true
			}
		}
	}
	return false
}

type byteRange struct {
	offset, length int64
	partial        bool
}

// parseRange reads a Range header for an object of size bytes. What is no single byte range is ignored, as S3 and
// RFC 9110 have it, and the whole object is answered. An end beyond the object is clipped, a suffix longer than
// the object is the whole of it; both are partial answers.
func parseRange(header string, size int64) (byteRange, error) {
	whole := byteRange{0, size, false}
	spec, ok := strings.CutPrefix(header, "bytes=")
	if !ok || strings.Contains(spec, ",") {
		return whole, nil
	}
	first, last, ok := strings.Cut(strings.TrimSpace(spec), "-")
	if !ok {
		return whole, nil
	}
	unsatisfiable := &refusal{status: http.StatusRequestedRangeNotSatisfiable, code: "InvalidRange", message: "The requested range is not satisfiable", size: size}
	from, okFrom := digits(first)
	to, okTo := digits(last)
	switch {
	case first == "" && okTo:
		if to == 0 || size == 0 {
			return byteRange{}, unsatisfiable
		}
		n := min(to, size)
		return byteRange{size - n, n, true}, nil
	case !okFrom, last != "" && !okTo, last != "" && to < from:
		return whole, nil
	case from >= size:
		return byteRange{}, unsatisfiable
	case last == "":
		return byteRange{from, size - from, true}, nil
	}
	return byteRange{from, min(to, size-1) - from + 1, true}, nil
}

// digits reads a decimal number; one too large for an object position counts as the largest.
func digits(s string) (int64, bool) {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return 1<<63 - 1, true
	}
	return n, true
}
