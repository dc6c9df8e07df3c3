package e2e

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
)

// TestWhatCannotBeServedRightIsRefused: a clear reason that names the record, and never a table with wrong rows.
func TestWhatCannotBeServedRightIsRefused(t *testing.T) {
	w := newWorld(t)
	dir := filepath.Join(harness.Root(t), "integration", "testdata", "samples")
	for _, tc := range []struct {
		topic  string // of every captured format that has it
		reason []string
	}{
		{"inv.docs", []string{"placeholder", "record"}},
		{"inv.nopk", []string{"no key", "record"}},
		{"inv.trunc_me", []string{"truncate", "record"}},
		{"inv.evolve", []string{"record"}},
		{"inv.signals", []string{"signal"}},
		{"message", []string{"logical messages"}},
	} {
		for _, format := range []string{"pgjson", "pgjsonschema", "pgavro"} {
			topic := format + "." + tc.topic
			files, err := filepath.Glob(filepath.Join(dir, format, topic+".jsonl"))
			if err != nil || len(files) == 0 {
				continue
			}
			t.Run(topic, func(t *testing.T) {
				w.admin.Replay(t, topic, harness.Captured(t, files[0]))
				for _, d := range dialects() {
					status, kind, message := refusal(t, w.gateway, d, topic)
					if status != http.StatusBadRequest || kind != "BadRequestException" {
						t.Errorf("%s: %d %s", d, status, kind)
					}
					for _, words := range tc.reason {
						if !strings.Contains(message, words) {
							t.Errorf("%s: the reason does not say %q: %s", d, words, message)
						}
					}
					t.Log(message)
				}
			})
		}
	}
}

// refusal loads a table until the answer is about the table and not about work that goes on.
func refusal(t *testing.T, f *harness.Frazil, dialect, topic string) (status int, kind, message string) {
	t.Helper()
	harness.Eventually(t, topic+" is refused", func() error {
		status, kind, message = f.Refusal(t, dialect, harness.TableName(topic), "")
		// The list of topics is a moment old; the first look takes its time.
		if status == http.StatusServiceUnavailable || status == http.StatusNotFound {
			return errText(message)
		}
		return nil
	})
	return status, kind, message
}

type errText string

func (e errText) Error() string { return string(e) }

// TestABadRecordStopsTheTableAtTheRecordBefore: what was published goes on being served, and the answer says why it
// does not move.
func TestABadRecordStopsTheTableAtTheRecordBefore(t *testing.T) {
	w := newWorld(t)
	c := captured{format: "pgjson", table: "customers"}
	records := harness.Captured(t, c.file(t))
	w.admin.Replay(t, c.topic(), records)
	n := int64(len(records))
	before := load(t, w.gateway, "v2", c.topic(), n)
	rows, err := before.Rows(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	w.admin.Append(t, c.topic(), 0, &kgo.Record{Key: []byte(`{"id":1}`), Value: []byte("no JSON at all")})
	harness.Eventually(t, "the table says that it is behind", func() error {
		now, err := reader(w.gateway, "v2").Load(t.Context(), harness.TableName(c.topic()))
		if err != nil {
			return err
		}
		if now.Metadata.Properties["frazil.stale-reason"] == "" {
			return errText("no reason yet")
		}
		got, err := now.Rows(t.Context(), 0)
		if err != nil || len(got) != len(rows) {
			t.Errorf("%d rows, %v; want %d", len(got), err, len(rows))
		}
		return nil
	})
}
