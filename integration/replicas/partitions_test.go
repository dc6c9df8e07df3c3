package replicas

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
)

const (
	manyPartitions = 1000
	// openFiles is the soft limit that systems give a process that asks for nothing.
	openFiles = 1024
	// wholeMemory is what four services of memory.max_bytes may have, bytes.
	wholeMemory = 4 * 512 << 20
)

// A table of 1000 partitions is served by one process with its default settings within the default limit of open files,
// by a first walk and by increments in every partition. Files, goroutines and memory are bounded by settings and not by the
// number of partitions.
func TestAThousandPartitionsInOneProcess(t *testing.T) {
	harness.Scale(t)
	broker := harness.StartFake(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addr()), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if _, err := kadm.NewClient(client).CreateTopic(t.Context(), manyPartitions, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	f := newFold(t, manyPartitions, 3)
	f.everywhere(client, 20)
	frazil := harness.StartFrazil(t, harness.Options{Brokers: broker.Addr(), OpenFiles: openFiles})
	peaks := watch(t, frazil)
	for _, warehouse := range []string{"v2", "v3"} {
		f.everywhere(client, 3)
		reader := &readback.Client{REST: frazil.REST, Warehouse: warehouse, Namespace: harness.Namespace, HTTP: http.DefaultClient}
		harness.Eventually(t, "everything is shown", func() error {
			tb, err := reader.Load(t.Context(), table)
			if err != nil {
				return err
			}
			ends, err := f.shown(tb)
			if err == nil && !slices.Equal(ends, f.ends) {
				err = errBehind
			}
			if err != nil {
				return err
			}
			rows, err := tb.Rows(t.Context(), 0)
			if err == nil {
				f.judge(rows, ends)
			}
			return err
		})
	}
	got := peaks()
	t.Logf("peaks: %.0f open files, %.0f goroutines, %.0f MiB resident; %.0f s of processor time",
		got["process_open_fds"], got["go_goroutines"], got["process_resident_memory_bytes"]/(1<<20), got["process_cpu_seconds_total"])
	for name, most := range map[string]float64{
		"process_max_fds": openFiles, "process_open_fds": openFiles / 2, "go_goroutines": manyPartitions / 2, "process_resident_memory_bytes": wholeMemory,
	} {
		if got[name] > most || got[name] == 0 {
			t.Errorf("%s is %v, want 1 to %v", name, got[name], most)
		}
	}
}

// everywhere writes to every partition: upserts and deletes of a few keys of its own, at last an upsert.
func (f *fold) everywhere(client *kgo.Client, n int) {
	f.t.Helper()
	var mu sync.Mutex
	var failed error
	for p := range f.logs {
		for i := range n {
			f.serial++
			e := oracle.Event{Key: p + len(f.logs)*f.rng.IntN(8), Deleted: i < n-1 && f.rng.IntN(5) == 0, N: f.serial}
			client.Produce(f.t.Context(), e.Record(topic, int32(p)), func(r *kgo.Record, err error) {
				mu.Lock()
				defer mu.Unlock()
				if failed = errors.Join(failed, err); err == nil {
					f.logs[r.Partition][r.Offset] = e
					f.ends[r.Partition] = max(f.ends[r.Partition], r.Offset+1)
				}
			})
		}
	}
	if err := client.Flush(f.t.Context()); err != nil || failed != nil {
		f.t.Fatal(err, failed)
	}
}

// dataPath has the partition and the end of a data file.
var dataPath = regexp.MustCompile(`/data/(\d+)/\d+-(\d+)-`)

// shown answers the ends of a table's newest snapshot by the names of its files: the newest event of every partition is
// a row, so that each has a file up to its end.
func (f *fold) shown(t *readback.Table) ([]int64, error) {
	files, err := t.Files(f.t.Context(), 0)
	if err != nil {
		return nil, err
	}
	ends := make([]int64, len(f.ends))
	for _, file := range files {
		var p int
		var end int64
		m := dataPath.FindStringSubmatch(file.Path)
		if m == nil {
			return nil, fmt.Errorf("data file %s", file.Path)
		}
		if _, err := fmt.Sscan(m[1]+" "+m[2], &p, &end); err != nil {
			return nil, err
		}
		ends[p] = max(ends[p], end)
	}
	return ends, nil
}

// watch looks at the metrics until its answer is called, which answers the highest value of each.
func watch(t *testing.T, frazil *harness.Frazil) (peaks func() map[string]float64) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	highest := map[string]float64{}
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			for name, v := range frazil.Metrics(t) {
				highest[name] = max(highest[name], v)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() map[string]float64 {
		stop()
		watching.Wait()
		return highest
	}
}
