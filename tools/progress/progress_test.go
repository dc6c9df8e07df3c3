package progress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/tools/command"
)

// catalog answers one progress after the other; the last one again and again.
func catalog(t *testing.T, answers ...string) string {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/v2/namespaces/kafka/tables/orders/progress" || r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusNotFound)
			_, _ = fmt.Fprint(w, `{"error":{"message":"Table does not exist: kafka.none","code":404}}`)
			return
		}
		_, _ = fmt.Fprint(w, answers[min(n, len(answers)-1)])
		n++
	}))
	t.Cleanup(s.Close)
	return s.URL
}

const half = `{"table":"orders","topic":"shop.orders","plan":"lazy","partitions":2,"offsets":200,"offsets-read":50,"offsets-wanted":100,
	"walks":[{"partition":0,"start":0,"frontier":50,"end":100,"wanted":20},{"partition":1,"start":0,"frontier":100,"end":100,"wanted":100}]}`

const rest = `{"table":"orders","topic":"shop.orders","plan":"lazy","partitions":2,"offsets":200,"offsets-read":150,"offsets-wanted":0,
	"walks":[{"partition":0,"start":0,"frontier":0,"end":100,"wanted":0},{"partition":1,"start":0,"frontier":50,"end":100,"wanted":50}]}`

func call(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := run(t.Context(), args, command.Streams{In: strings.NewReader("secret\n"), Out: &out, Err: &errs})
	return out.String(), err
}

func TestProgressIsShown(t *testing.T) {
	at := catalog(t, half)
	out, err := call(t, "orders", "--catalog", at, "--token-file", "-")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"topic shop.orders, plan lazy", "[#######.......................]  25.0 % of 200 offsets in 2 of 2 partitions", "50  100           20", "100  100            -"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
	if out, err = call(t, "orders", "--catalog", at, "--token-file", "-", "--format", "json"); err != nil || !strings.Contains(out, `"offsets-wanted": 100`) {
		t.Errorf("json: %s, %v", out, err)
	}
	if _, err = call(t, "none", "--catalog", at, "--token-file", "-"); err == nil || !strings.Contains(err.Error(), "Table does not exist: kafka.none (404)") {
		t.Errorf("no such table: %v", err)
	}
	for _, args := range [][]string{{}, {"a", "b"}, {"a", "--format", "xml"}, {"a", "--every", "0s"}} {
		if _, err := call(t, args...); !errors.Is(err, command.ErrUsage) {
			t.Errorf("%q: %v", args, err)
		}
	}
}

// It ends when nothing is being read any more, however much nobody has asked for.
func TestWatchEndsWhenNothingIsWanted(t *testing.T) {
	out, err := call(t, "orders", "--catalog", catalog(t, half, half, rest), "--token-file", "-", "--watch", "--every", "1ms")
	if err != nil || strings.Count(out, "\r") != 3 || !strings.Contains(out, "75.0 %") || !strings.HasSuffix(out, "\n") {
		t.Fatalf("%q, %v", out, err)
	}
}

func TestRateAndTimeLeft(t *testing.T) {
	began := time.Unix(1000, 0)
	p := pace{began, 50}
	if got := p.line(report{Offsets: 1000, Read: 250, Wanted: 600, Partitions: 1, Walks: make([]walk, 1)}, began.Add(2*time.Second)); !strings.HasSuffix(got, "600 wanted, 100/s, 6s left") {
		t.Errorf("%q", got)
	}
	if got := p.line(report{Offsets: 1000, Read: 50, Wanted: 600}, began); !strings.HasSuffix(got, "600 wanted") {
		t.Errorf("%q", got)
	}
	if got := bar(0, 0); !strings.Contains(got, "100.0 %") {
		t.Errorf("an empty table: %q", got)
	}
}
