package rest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/fault"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	"github.com/frazil-io/frazil/services/edge/internal/authn"
)

const (
	commitPath = "/v1/v3/namespaces/kafka/tables/orders"
	setTag     = `{"action":"set-snapshot-ref","ref-name":"month-end","type":"tag","snapshot-id":7}`
	updateTag  = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}"
)

func commitOf(requirements, updates string) string {
	return fmt.Sprintf(`{"identifier":{"namespace":["kafka"],"name":"orders"},"requirements":[%s],"updates":[%s]}`, requirements, updates)
}

func TestTagsAreCommitted(t *testing.T) {
	h := newHarness(t, authn.Open())
	a := h.do("POST", commitPath, commitOf(
		`{"type":"assert-table-uuid","uuid":"9C12D441-03FE-4693-9A96-A0705DDF69C1"},{"type":"assert-ref-snapshot-id","ref":"month-end","snapshot-id":null},`+
			`{"type":"assert-ref-snapshot-id","ref":"main","snapshot-id":7}`,
		setTag+`,{"action":"remove-snapshot-ref","ref-name":"old"}`))
	if a.StatusCode != http.StatusOK {
		t.Fatalf("%d %s", a.StatusCode, a.body)
	}
	var body struct {
		Location string          `json:"metadata-location"`
		Metadata json.RawMessage `json:"metadata"`
	}
	a.decode(t, &body)
	if body.Location == "" || len(body.Metadata) == 0 {
		t.Fatalf("answer %s", a.body)
	}
	want := &catalogv1.UpdateTagsRequest{
		Warehouse: "v3", Namespace: "kafka", Table: "orders", TableUuid: "9c12d441-03fe-4693-9a96-a0705ddf69c1",
		Changes:      []*catalogv1.TagChange{{Name: "month-end", SnapshotId: 7}, {Name: "old"}},
		Requirements: []*catalogv1.RefRequirement{{Name: "month-end"}, {Name: "main", SnapshotId: 7}},
	}
	if got := h.fake.Tagged(); !proto.Equal(got, want) {
		t.Fatalf("asked for %v, want %v", got, want)
	}
}

func TestCommitsThatAreNotTaken(t *testing.T) {
	h := newHarness(t, authn.Open())
	for body, want := range map[string]string{
		commitOf("", `{"action":"add-snapshot","snapshot":{}}`):                                                             "403 ForbiddenException",
		commitOf("", `{"action":"set-properties","updates":{}},`+setTag):                                                    "403 ForbiddenException",
		commitOf("", setTag+`,{"action":"set-location","location":"x"}`):                                                    "403 ForbiddenException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"main","type":"branch","snapshot-id":7}`):                     "403 ForbiddenException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"main","type":"tag","snapshot-id":7}`):                        "403 ForbiddenException",
		commitOf("", `{"action":"remove-snapshot-ref","ref-name":"main"}`):                                                  "403 ForbiddenException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"dev","type":"branch","snapshot-id":7}`):                      "403 ForbiddenException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"x","type":"tag","snapshot-id":7,"max-ref-age-ms":5}`):        "403 ForbiddenException",
		commitOf(`{"type":"assert-current-schema-id","current-schema-id":0}`, setTag):                                       "403 ForbiddenException",
		commitOf("", `{"action":"make-coffee"}`):                                                                            "400 BadRequestException",
		commitOf("", `{"action":" "}`):                                                                                      "400 BadRequestException",
		commitOf("", `{}`):                                                                                                  "400 BadRequestException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"x","type":"tag"}`):                                           "400 BadRequestException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"x","type":"leaf","snapshot-id":7}`):                          "400 BadRequestException",
		commitOf("", `{"action":"set-snapshot-ref","type":"tag","snapshot-id":7}`):                                          "400 BadRequestException",
		commitOf("", `{"action":"set-snapshot-ref","ref-name":"x","type":"tag","snapshot-id":7,"min-snapshots-to-keep":1}`): "400 BadRequestException",
		commitOf(`{"type":"assert-moon-phase"}`, setTag):                                                                    "400 BadRequestException",
		commitOf(`{"type":"assert-ref-snapshot-id"}`, setTag):                                                               "400 BadRequestException",
		`{"updates":"all"}`: "400 BadRequestException",
		`no`:                "400 BadRequestException",
		commitOf(`{"type":"assert-create"}`, setTag):                                                        "409 CommitFailedException",
		commitOf(`{"type":"assert-table-uuid","uuid":"a"},{"type":"assert-table-uuid","uuid":"b"}`, setTag): "409 CommitFailedException",
	} {
		a := h.do("POST", commitPath, body)
		if got := fmt.Sprint(a.StatusCode, " ", a.kind(t)); got != want {
			t.Errorf("%s: %s, want %s: %s", body, got, want, a.body)
		}
	}
	if h.fake.Calls("UpdateTags") != 0 {
		t.Error("a refused commit was made")
	}
	for path, want := range map[string]string{
		"/v1/v2/namespaces/kafka/tables/none":  "404 NoSuchTableException",
		"/v1/v2/namespaces/none/tables/orders": "404 NoSuchNamespaceException",
	} {
		a := h.do("POST", path, commitOf("", setTag))
		if got := fmt.Sprint(a.StatusCode, " ", a.kind(t)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

func TestFailedRequirementsAreConflicts(t *testing.T) {
	h := newHarness(t, authn.Open())
	for kind, want := range map[error]string{
		fault.ErrConflict: "409 CommitFailedException", fault.ErrInvalid: "400 BadRequestException", fault.ErrUnavailable: "503 SlowDownException",
	} {
		h.fake.Fail = func(_ context.Context, method, _ string) error {
			if method == "UpdateTags" {
				return fmt.Errorf("ref x: %w", kind)
			}
			return nil
		}
		a := h.do("POST", commitPath, commitOf("", setTag))
		if got := fmt.Sprint(a.StatusCode, " ", a.kind(t)); got != want {
			t.Errorf("%v: %s, want %s", kind, got, want)
		}
	}
}

// Who may write is asked for each table; who may write none is not offered it.
func TestOnlyWritersTag(t *testing.T) {
	auth, err := authn.WithTokens([]authn.Token{
		{Secret: aliceToken, Principal: "alice", Tables: []string{"orders*"}, Write: true},
		{Secret: aliceToken + "2", Principal: "alice", Tables: []string{"*"}},
		{Secret: bobToken, Principal: "bob", Tables: []string{"*"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t, auth)
	for token, want := range map[string]map[string]int{
		aliceToken: {"orders": 200, "payments": 403}, bobToken: {"orders": 403, "payments": 403}, "unknown-token-0123": {"orders": 401},
	} {
		for table, status := range want {
			a := h.do("POST", "/v1/v2/namespaces/kafka/tables/"+table, commitOf("", setTag), "Authorization", "Bearer "+token)
			if a.StatusCode != status {
				t.Errorf("%s on %s: %d, want %d: %s", token, table, a.StatusCode, status, a.body)
			}
		}
	}
	for token, want := range map[string]bool{aliceToken: true, bobToken: false} {
		var c configBody
		h.get("/v1/config", "Authorization", "Bearer "+token).decode(t, &c)
		if slices.Contains(c.Endpoints, updateTag) != want {
			t.Errorf("%s: endpoints %v", token, c.Endpoints)
		}
	}
}
