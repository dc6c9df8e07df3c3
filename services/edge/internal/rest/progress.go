package rest

import (
	"errors"
	"net/http"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
)

// progress is how far a table's history was read. It is no operation of the Iceberg specification.
type progress struct {
	Table      string `json:"table"`
	Topic      string `json:"topic"`
	StateEpoch string `json:"state-epoch"`
	Plan       string `json:"plan"`
	Partitions int32  `json:"partitions"`
	// Offsets of the table, those that were read, and those that are being read for somebody.
	Offsets       int64  `json:"offsets"`
	OffsetsRead   int64  `json:"offsets-read"`
	OffsetsWanted int64  `json:"offsets-wanted"`
	Walks         []walk `json:"walks"`
}

// walk is one partition: [frontier, end) was read of [start, end), down to wanted is asked for.
type walk struct {
	Partition int32 `json:"partition"`
	Start     int64 `json:"start"`
	Frontier  int64 `json:"frontier"`
	End       int64 `json:"end"`
	Wanted    int64 `json:"wanted"`
}

func (h *Handler) tableProgress(q *request) error {
	ns, table, err := h.visibleTable(q)
	if err != nil {
		return err
	}
	resp, err := h.deps.Catalog.GetProgress(q.r.Context(), &catalogv1.GetProgressRequest{Namespace: ns, Table: table})
	if err = rpc.Error(err); errors.Is(err, fault.ErrNotFound) {
		if _, missing := h.deps.Catalog.TableExists(q.r.Context(), &catalogv1.TableExistsRequest{Namespace: ns, Table: table}); missing != nil {
			return h.tableError(q, ns, table, missing)
		}
		return refuse(http.StatusNotFound, "NoSuchProgressException", "Table was never loaded: %s", printable(ns+"."+table))
	}
	if err != nil {
		return err
	}
	out := progress{
		Table: resp.GetTable(), Topic: resp.GetTopic(), StateEpoch: resp.GetStateEpoch(), Plan: resp.GetPlan(),
		Partitions: resp.GetPartitions(), Walks: []walk{},
	}
	for _, w := range resp.GetWalks() {
		out.Offsets += w.GetEnd() - w.GetStart()
		out.OffsetsRead += w.GetEnd() - max(w.GetStart(), w.GetFrontier())
		out.OffsetsWanted += max(0, w.GetFrontier()-w.GetWanted())
		out.Walks = append(out.Walks, walk{w.GetPartition(), w.GetStart(), w.GetFrontier(), w.GetEnd(), w.GetWanted()})
	}
	q.w.Header().Set("Cache-Control", "no-store")
	return q.answer(out)
}
