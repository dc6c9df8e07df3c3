package rest_test

import (
	"encoding/json"
	"testing"

	"github.com/frazil-io/frazil/services/edge/internal/authn"
)

func TestProgressOfATable(t *testing.T) {
	h := newHarness(t, authn.Open())
	a := h.get(ordersPath + "/progress")
	var got struct {
		Plan          string `json:"plan"`
		Partitions    int    `json:"partitions"`
		Offsets       int64  `json:"offsets"`
		OffsetsRead   int64  `json:"offsets-read"`
		OffsetsWanted int64  `json:"offsets-wanted"`
		Walks         []struct {
			Frontier int64 `json:"frontier"`
			Wanted   int64 `json:"wanted"`
		} `json:"walks"`
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Plan != "lazy" || got.Partitions != 3 || got.Offsets != 105 || got.OffsetsRead != 50 || got.OffsetsWanted != 40 ||
		len(got.Walks) != 2 || got.Walks[0].Frontier != 60 || got.Walks[0].Wanted != 20 {
		t.Errorf("%s", a.body)
	}
	if a := h.get("/v1/v2/namespaces/kafka/tables/none/progress"); a.StatusCode != 404 || a.kind(t) != "NoSuchTableException" {
		t.Errorf("no such table: %d %s", a.StatusCode, a.body)
	}
}
