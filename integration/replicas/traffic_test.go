package replicas

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
)

// traffic is readers that load the table and read all of it again and again. Only sizes and counts are checked: the
// model moves on meanwhile.
type traffic struct {
	in   *installation
	stop context.CancelFunc

	readers sync.WaitGroup
	failed  chan error
	// reads went well; retries were refused with 503 or broke, and engines repeat them; unavailable of them got a 503.
	reads, retries, unavailable, longest atomic.Int64
}

const readers = 4

func newTraffic(in *installation) *traffic {
	ctx, stop := context.WithCancel(in.t.Context())
	in.t.Cleanup(stop)
	l := &traffic{in: in, stop: stop, failed: make(chan error, readers)}
	for i := range readers {
		l.readers.Go(func() { l.read(ctx, in.catalog([]string{"v2", "v3"}[i%2])) })
	}
	return l
}

func (l *traffic) read(ctx context.Context, client *readback.Client) {
	for ctx.Err() == nil {
		began := time.Now()
		err := readOnce(ctx, client)
		took := time.Since(began)
		l.longest.Store(max(l.longest.Load(), int64(took)))
		switch {
		case ctx.Err() != nil:
		case err == nil:
			l.reads.Add(1)
		case repeatable(err):
			l.in.t.Logf("repeated after %s: %v", took, err)
			l.retries.Add(1)
			if status := (*readback.StatusError)(nil); errors.As(err, &status) {
				l.unavailable.Add(1)
			}
		default:
			l.failed <- err
			return
		}
	}
}

func readOnce(ctx context.Context, client *readback.Client) error {
	tb, err := client.Load(ctx, table)
	if err != nil {
		return err
	}
	_, err = tb.Rows(ctx, 0)
	return err
}

// goesOn waits until some more reads have gone well.
func (l *traffic) goesOn(what string) {
	l.in.t.Helper()
	before := l.reads.Load()
	harness.Eventually(l.in.t, "reads go on "+what, func() error {
		select {
		case err := <-l.failed:
			l.in.t.Fatalf("a read failed %s: %v", what, err)
		default:
		}
		if n := l.reads.Load() - before; n < 2*readers {
			return fmt.Errorf("%d reads", n)
		}
		return nil
	})
}

// end ends the readers. None may have failed, and few may have been refused: a replica that goes is passed over, and
// what is left is a connection that breaks with the edge at its other end.
func (l *traffic) end() {
	l.in.t.Helper()
	l.stop()
	l.readers.Wait()
	close(l.failed)
	for err := range l.failed {
		l.in.t.Errorf("a read failed: %v", err)
	}
	l.in.t.Logf("%d reads, %d repeated, of them %d after 503; the longest took %s",
		l.reads.Load(), l.retries.Load(), l.unavailable.Load(), time.Duration(l.longest.Load()))
	if l.unavailable.Load() > max(1, l.reads.Load()/50) {
		l.in.t.Errorf("%d requests were refused while another replica of every service ran", l.unavailable.Load())
	}
}

// Readers and a producer go on without a pause while one replica after the other is stopped, killed, ended and replaced.
func TestLoadGoesOnWhileReplicasComeAndGo(t *testing.T) {
	in := newInstallation(t, 6, 4)
	f := newFold(t, 2, 7)
	_, err := kadm.NewClient(in.producer).CreateTopic(t.Context(), 2, 1, nil, topic)
	in.must(err)
	f.produce(in.producer, 100)
	l := newTraffic(in)
	disturb := func(p *process, how func(), back func()) {
		how()
		for range 5 {
			f.produce(in.producer, 5)
		}
		l.goesOn("without " + p.String())
		back()
	}
	for _, service := range services {
		for _, p := range in.of(service) {
			disturb(p, p.stop, p.resume)
			disturb(p, p.kill, func() { p.start(); p.awaitReady() })
			disturb(p, func() { p.end(); in.must(os.RemoveAll(p.data())) }, func() { p.start(); p.awaitReady() })
		}
	}
	l.end()
	judgeEnd(t, in, f)
}

// Every service grows from one replica to three and shrinks to the one that came last, while readers go on.
func TestLoadGoesOnWhileServicesGrowAndShrink(t *testing.T) {
	in := install(t, plan{chunk: 6, block: 4, replicas: 3, running: 1})
	f := newFold(t, 2, 8)
	_, err := kadm.NewClient(in.producer).CreateTopic(t.Context(), 2, 1, nil, topic)
	in.must(err)
	f.produce(in.producer, 100)
	judgeEnd(t, in, f)
	l := newTraffic(in)
	l.goesOn("with one replica of each service")
	for number := 1; number < 3; number++ {
		for _, service := range services {
			p := in.of(service)[number]
			p.start()
			p.awaitReady()
			f.produce(in.producer, 5)
			l.goesOn("with " + p.String())
		}
	}
	for number := range 2 {
		for _, service := range services {
			p := in.of(service)[number]
			p.end()
			f.produce(in.producer, 5)
			l.goesOn("without " + p.String())
		}
	}
	l.end()
	judgeEnd(t, in, f)
}

// Replicas that were stopped until all that they knew has expired, and go on then, spoil nothing: the others have
// published, folded and collected meanwhile, and nobody who asks the late ones gets what is gone.
func TestReplicasThatWereStoppedForLong(t *testing.T) {
	harness.NeedFull(t, "it outlives the shortest retention of snapshots, a minute")
	in := install(t, plan{chunk: 5, block: 2, replicas: replicasEach, running: replicasEach, retention: time.Minute})
	f := newFold(t, 2, 10)
	_, err := kadm.NewClient(in.producer).CreateTopic(t.Context(), 2, 1, nil, topic)
	in.must(err)
	f.produce(in.producer, 100)
	judgeEnd(t, in, f)
	known, err := in.catalog("v2").Load(t.Context(), table)
	in.must(err)
	l := newTraffic(in)
	var late []*process
	for i, service := range services {
		p := in.of(service)[i%replicasEach]
		p.stop()
		late = append(late, p)
	}
	in.outlive(f, known)
	for _, p := range late {
		p.resume()
		l.goesOn("with " + p.String() + ", which was away")
		f.produce(in.producer, 3)
	}
	l.end()
	for range 2 * replicasEach {
		f.produce(in.producer, 3)
		judgeEnd(t, in, f) // by one edge after the other
	}
}

// outlive goes on writing and reading until the snapshot of a table as it was loaded has expired.
func (in *installation) outlive(f *fold, known *readback.Table) {
	in.t.Helper()
	harness.Eventually(in.t, "what a replica knows has expired", func() error {
		f.produce(in.producer, 5)
		judgeEnd(in.t, in, f)
		tb, err := in.catalog("v2").Load(in.t.Context(), table)
		if err != nil {
			return err
		}
		if _, err := tb.Snapshot(known.Metadata.CurrentSnapshot); err == nil {
			return errors.New("it is listed")
		}
		return nil
	})
}

func judgeEnd(t *testing.T, in *installation, f *fold) {
	t.Helper()
	var tb *readback.Table
	harness.Eventually(t, "load", func() (err error) {
		if tb, err = in.catalog("v3").Load(t.Context(), table); err == nil {
			_, err = f.shows(tb)
		}
		return err
	})
	rows, err := tb.Rows(t.Context(), 0)
	in.must(err)
	f.judge(rows, f.ends)
}
