package kafkalogtest

import (
	"errors"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// byTime: timestamps need not ascend; what lies below an answer is older all the same.
func byTime(t *testing.T, tr *trial) {
	door, ok := tr.Door.(kafkalog.TimeIndex)
	if !ok {
		t.Skip("the door has no time index")
	}
	tr.Cluster.Create(t, "times", 2, false)
	for _, ms := range []int64{1_000_000, 3_000_000, 2_000_000, 5_000_000, 4_000_000} {
		tr.Cluster.Append(t, "times", 0, None, kafkalog.Record{TimestampMs: ms, Key: []byte("k"), Value: []byte("v")})
	}
	topic, err := tr.Door.Topic(t.Context(), "times")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		ms   int64
		want kafkapos.Offset
	}{{0, 0}, {1_000_000, 0}, {1_000_001, 1}, {2_500_000, 1}, {3_000_001, 3}, {5_000_000, 3}, {5_000_001, -1}} {
		got, err := door.OffsetsAt(t.Context(), topic, time.UnixMilli(c.ms))
		if err != nil || got[0] != c.want || got[1] != -1 {
			t.Errorf("at %d: %v, %v; want %d and -1", c.ms, got, err, c.want)
		}
	}
	topic.ID[0]++
	if _, err := door.OffsetsAt(t.Context(), topic, time.UnixMilli(0)); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("another incarnation: %v", err)
	}
}
