package cases

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// A topic that never had a row shows no columns, so there is no table yet. That is no fault and ends by itself: 503
// with Retry-After, at once, with the reason; and the first row makes the table.
func TestATopicWithoutARow(t *testing.T) {
	for name, fill := range map[string]func(g *gateway) (end int64){
		"nothing":    func(*gateway) int64 { return 0 },
		"tombstones": func(g *gateway) int64 { g.produce(tombstone(1), tombstone(2)); return 2 },
		"JSON nulls": func(g *gateway) int64 { g.produce(record{key: key(1), value: "null"}); return 1 },
		"aborted": func(g *gateway) int64 {
			client := g.Client(kgo.TransactionalID("tx"))
			g.must(client.BeginTransaction())
			g.must(client.ProduceSync(g.t.Context(), create(1, 1, "aborted").kafka()).FirstErr())
			g.must(client.EndTransaction(g.t.Context(), kgo.TryAbort))
			return 2 // the record and the marker
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGateway(t)
			end := fill(g)
			g.Until("the table is not there yet", func() error {
				status, retry, message := g.attempt()
				if status != http.StatusServiceUnavailable || retry == "" || !strings.Contains(message, "no row yet") || !strings.Contains(message, topic) {
					return fmt.Errorf("%d, Retry-After %q, %s", status, retry, message)
				}
				return nil
			})
			g.produce(create(7, 70, "first"))
			g.shows(end+1, "7 70 first")
		})
	}
}

// attempt loads the table once.
func (g *gateway) attempt() (status int, retryAfter, message string) {
	g.t.Helper()
	res, err := http.Get("http://" + g.Config.REST.Listen + "/v1/v2/namespaces/kafka/tables/inv_item")
	g.must(err)
	defer res.Body.Close()
	var body struct {
		Error struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	g.must(json.NewDecoder(res.Body).Decode(&body))
	return res.StatusCode, res.Header.Get("Retry-After"), body.Error.Message
}
