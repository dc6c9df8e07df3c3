package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/services/app"
)

const (
	// fewWaiting is how many requests of a kind may wait here.
	fewWaiting = 8
	// crowded is how many readers are more than have room.
	crowded = 3 * fewWaiting
)

// tight makes every bound so small that many clients meet it.
func tight(cfg *app.Config) {
	oneSlot(cfg)
	cfg.Slots.Waiting = fewWaiting
	cfg.Memory.MaxBytes, cfg.Cache.MaxBytes, cfg.Cache.OpenFiles, cfg.Cache.MetadataMaxBytes = 16<<20, 64<<10, 2, 1<<20
	cfg.Dedup.OpenRuns = 2
}

// Requests for which there is no room to wait are refused at once, and those that wait are no more than configured.
func TestWaitingRequestsAreBounded(t *testing.T) {
	c := newCrowd(t, tight)
	c.produce(c.Producer, 200)
	h := c.load("v3")
	c.must(c.process.Stop()) // with it goes what it has in memory
	c.start()
	files, err := h.Files(t.Context(), 0)
	c.must(err)
	open := c.state.close(func(write bool, name string) bool { return !write && strings.HasPrefix(name, "rowgroups/") })
	defer open()
	var refused atomic.Int64
	_, served := together(manyReaders, func(i int) error {
		_, err := h.Object(t.Context(), files[i%len(files)].Path, "")
		var status *readback.StatusError
		if errors.As(err, &status) && status.Code == http.StatusServiceUnavailable {
			refused.Add(1)
			return nil
		}
		return err
	})
	c.Until("all others are refused", func() error {
		if n := refused.Load(); n != manyReaders-fewWaiting {
			return fmt.Errorf("%d are", n)
		}
		return nil
	})
	now, err := gauges("http://" + c.Config.REST.Listen)
	c.must(err)
	if n := now["frazil_materializer_requests_waiting/layout"]; n != fewWaiting {
		t.Errorf("%v requests wait, want %d", n, fewWaiting)
	}
	open()
	c.must(served())
	c.must(h.read(t.Context())) // what was refused can be had now
}

// Under the load of many readers and a writer every bound holds, and what is refused is had in the end.
func TestBoundsHoldUnderLoad(t *testing.T) {
	c := newCrowd(t, tight)
	var tables []held
	for i := range 8 {
		c.produce(c.Producer, 12)
		tables = append(tables, c.load([]string{"v2", "v3"}[i%2]))
	}
	peaks := c.peaks()
	done, err := together(crowded, func(i int) error {
		again := time.NewTicker(25 * time.Millisecond) // as clients wait before they repeat
		defer again.Stop()
		for {
			err := tables[i%len(tables)].read(t.Context())
			if err == nil || !repeatable(err) {
				return err
			}
			<-again.C
		}
	})
	for reading := true; reading; {
		c.produce(c.Producer, 5)
		c.load("v3")
		select {
		case <-done:
			reading = false
		default:
		}
	}
	c.must(err())
	got := peaks()
	memory := float64(c.Config.Memory.MaxBytes)
	for name, most := range map[string]float64{
		"frazil_materializer_slots_used/work":         1,
		"frazil_materializer_slots_used/scan":         1,
		"frazil_materializer_requests_waiting/work":   fewWaiting,
		"frazil_materializer_requests_waiting/scan":   fewWaiting,
		"frazil_materializer_requests_waiting/layout": fewWaiting,
		"frazil_materializer_memory_used_bytes":       memory * 7 / 8,
		"frazil_materializer_cache_bytes":             float64(c.Config.Cache.MaxBytes),
		"frazil_materializer_cache_open_files":        float64(c.Config.Cache.OpenFiles + crowded),
		"frazil_dedup_slots_used/increment":           1,
		"frazil_dedup_slots_used/walk":                1,
		"frazil_dedup_requests_waiting/table":         fewWaiting,
		"frazil_dedup_requests_waiting/walk":          fewWaiting,
		"frazil_dedup_cache_used_bytes/state":         memory / 4,
		"frazil_dedup_cache_used_bytes/deletes":       memory / 8,
		"frazil_dedup_cache_used_bytes/filters":       memory / 8,
		"frazil_dedup_run_files_open":                 float64(c.Config.Dedup.OpenRuns + 16), // of a level that is merged
		"frazil_catalog_cache_used_bytes":             float64(c.Config.Cache.MetadataMaxBytes),
		"frazil_catalog_requests_waiting/table":       1024,
		"frazil_catalog_requests_waiting/render":      1024,
		"frazil_edge_requests_active":                 crowded + 2,
	} {
		peak, known := got[name]
		if !known {
			t.Errorf("%s is not reported", name)
		}
		if peak > most {
			t.Errorf("%s has been %v, its bound is %v", name, peak, most)
		}
		t.Logf("%s: %v of %v", name, peak, most)
	}
}

// peaks looks at the gauges until its answer is called, which answers the highest value of each.
func (c *crowd) peaks() func() map[string]float64 {
	ctx, stop := context.WithCancel(c.t.Context())
	highest := map[string]float64{}
	var failed error
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(25 * time.Millisecond)
		defer tick.Stop()
		for ctx.Err() == nil {
			now, err := gauges("http://" + c.Config.REST.Listen)
			failed = errors.Join(failed, err)
			for name, v := range now {
				highest[name] = max(highest[name], v)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() map[string]float64 {
		stop()
		watching.Wait()
		c.must(failed)
		return highest
	}
}

// sample is a line of Prometheus' text format: name, labels, value. Our own gauges have one label at most.
var (
	sample  = regexp.MustCompile(`(?m)^(frazil_[a-z_]+)(?:\{(.*)\})? ([0-9.e+]+)$`)
	ownWord = regexp.MustCompile(`(?:^|,)(?:kind|cache)="([a-z]+)"`)
)

// gauges are the values of our metrics, under name/label.
func gauges(base string) (map[string]float64, error) {
	resp, err := http.Get(base + "/metrics")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	out := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(string(body), -1) {
		name := m[1]
		if label := ownWord.FindStringSubmatch(m[2]); label != nil {
			name += "/" + label[1]
		}
		v, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, err
		}
		out[name] += v
	}
	return out, nil
}
