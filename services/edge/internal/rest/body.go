package rest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// body reads what the client sends, at most limit bytes within Config.BodyTimeout: the server itself sets no such limit,
// since one for the whole request would end long answers.
func (h *Handler) body(q *request, limit int64) ([]byte, error) {
	control := http.NewResponseController(q.w)
	// The connection's deadline is of the machine's clock, whatever clock the service has.
	if err := control.SetReadDeadline(time.Now().Add(h.cfg.BodyTimeout)); err != nil {
		return nil, fmt.Errorf("bound the reading of the body: %w", err)
	}
	body, err := io.ReadAll(http.MaxBytesReader(q.w, q.r.Body, limit))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, refuse(http.StatusRequestTimeout, "BadRequestException", "The body did not arrive within %v", h.cfg.BodyTimeout)
	}
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "BadRequestException", "The body can't be read or is longer than %d bytes", limit)
	}
	if err := control.SetReadDeadline(time.Time{}); err != nil {
		return nil, fmt.Errorf("end the bound on the body: %w", err)
	}
	return body, nil
}
