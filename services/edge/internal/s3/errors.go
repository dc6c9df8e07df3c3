package s3

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/services/edge/internal/sigv4"
)

// refusal is an error whose answer is decided.
type refusal struct {
	status  int
	code    string
	message string
	// size of the object, for Content-Range of a 416.
	size int64
}

// Error is the message that the client sees.
func (e *refusal) Error() string { return e.code + ": " + e.message }

func refuse(status int, code, format string, args ...any) error {
	return &refusal{status: status, code: code, message: fmt.Sprintf(format, args...)}
}

func isCode(err error, code string) bool {
	var s *sigv4.Error
	return errors.As(err, &s) && s.Code == code
}

// fromSignature gives a failed signature check its status.
func fromSignature(err error) error {
	var s *sigv4.Error
	if !errors.As(err, &s) {
		return err
	}
	status := http.StatusForbidden
	switch s.Code {
	case "InvalidArgument", "InvalidRequest", "AuthorizationHeaderMalformed", "AuthorizationQueryParametersError":
		status = http.StatusBadRequest
	case "NotImplemented":
		status = http.StatusNotImplemented
	}
	return &refusal{status: status, code: s.Code, message: s.Message}
}

// asRefusal maps the kinds.
func asRefusal(ctx context.Context, err error) *refusal {
	var e *refusal
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(context.Cause(ctx), errHeld):
		return &refusal{status: http.StatusServiceUnavailable, code: "SlowDown", message: "The object is still being made; the work goes on. Please try again."}
	case errors.Is(err, fault.ErrCorrupt):
		return &refusal{status: http.StatusInternalServerError, code: "InternalError", message: err.Error()}
	case errors.Is(err, fault.ErrNotFound), errors.Is(err, fault.ErrRetired):
		return &refusal{status: http.StatusNotFound, code: "NoSuchKey", message: "The specified key does not exist: " + err.Error()}
	case errors.Is(err, fault.ErrInvalid):
		return &refusal{status: http.StatusBadRequest, code: "InvalidArgument", message: err.Error()}
	case errors.Is(err, fault.ErrDenied):
		return &refusal{status: http.StatusForbidden, code: "AccessDenied", message: err.Error()}
	case errors.Is(err, fault.ErrUnsupported):
		return &refusal{status: http.StatusNotImplemented, code: "NotImplemented", message: err.Error()}
	case errors.Is(err, fault.ErrUnavailable), errors.Is(err, fault.ErrConflict):
		return &refusal{status: http.StatusServiceUnavailable, code: "SlowDown", message: err.Error()}
	}
	return &refusal{status: http.StatusInternalServerError, code: "InternalError", message: "We encountered an internal error. Please try again."}
}

// retryAfter is what a client is told after 503, seconds.
const retryAfter = 1

type errorBody struct {
	XMLName   xml.Name `xml:"Error"`
	Code      string   `xml:"Code"`
	Message   string   `xml:"Message"`
	Resource  string   `xml:"Resource"`
	RequestID string   `xml:"RequestId"`
	HostID    string   `xml:"HostId"`
}

// fail writes an error. Once the status is out it can't be taken back: the body is left short then, and the
// connection breaks.
func (h *Handler) fail(ctx context.Context, q *request, err error) {
	var late *brokenBody
	if errors.As(err, &late) || q.r.Context().Err() != nil {
		return
	}
	e := asRefusal(ctx, err)
	header := q.w.Header()
	delete(header, "ETag")
	header.Del("Last-Modified")
	header.Del("Cache-Control")
	switch e.status {
	case http.StatusNotModified:
		q.w.WriteHeader(e.status)
		return
	case http.StatusServiceUnavailable:
		header.Set("Retry-After", strconv.Itoa(retryAfter))
		header.Set("X-Amz-Retry-After", strconv.Itoa(retryAfter*1000))
	case http.StatusRequestedRangeNotSatisfiable:
		header.Set("Content-Range", "bytes */"+strconv.FormatInt(e.size, 10))
	}
	q.writeXML(e.status, errorBody{
		Code: e.code, Message: e.message, Resource: q.r.URL.Path, RequestID: q.id, HostID: q.id,
	})
}

// writeXML writes a document; nothing but its headers to a HEAD.
func (q *request) writeXML(status int, body any) {
	raw, err := xml.Marshal(body)
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte("<Error><Code>InternalError</Code></Error>")
	}
	header := q.w.Header()
	header.Set("Content-Type", "application/xml")
	if q.r.Method == http.MethodHead {
		q.w.WriteHeader(status)
		return
	}
	header.Set("Content-Length", strconv.Itoa(len(xml.Header)+len(raw)))
	q.w.WriteHeader(status)
	if _, err := q.w.Write(append([]byte(xml.Header), raw...)); err != nil {
		return // the client left
	}
}
