package replicas

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
)

var (
	seed  = flag.Uint64("replicas.seed", 0, "run only the program of this seed")
	steps = flag.Int("replicas.steps", 60, "steps of a program")
)

// program is a random life of an installation, and the model of what was produced.
type program struct {
	*installation
	*fold

	t    *testing.T
	rng  *rand.Rand
	cuts []cut
	done map[string]int // what was done, by name
	// tries and retries count requests of readers: all, and those that were repeated after 503 or a broken connection.
	tries, retries atomic.Int64
}

// cut is a snapshot that was seen, and the ends that it shows.
type cut struct {
	warehouse string
	snapshot  int64
	ends      []int64
}

// Whatever happens to replicas while others of their service run, what readers get is the fold at its cut, and no
// request fails beyond what clients repeat by themselves.
func TestReadsAreTheFoldWhateverHappensToReplicas(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("replicas.seed %d", s)
	rng := rand.New(rand.NewPCG(s, 1))
	block := 2 * (1 + rng.IntN(2))
	p := &program{
		t: t, rng: rng, done: map[string]int{},
		installation: newInstallation(t, block+rng.IntN(4), block), fold: newFold(t, 1+rng.IntN(3), s),
	}
	_, err := kadm.NewClient(p.producer).CreateTopic(t.Context(), int32(len(p.ends)), 1, nil, topic)
	p.must(err)
	p.produce(1 + rng.IntN(60))
	for range *steps {
		p.step()
	}
	for _, pr := range p.processes {
		p.mend(pr)
	}
	p.load()
	for _, c := range p.cuts {
		p.read(c)
	}
	t.Logf("%v; %d requests of readers, %d repeated", p.done, p.tries.Load(), p.retries.Load())
}

func (p *program) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *program) produce(n int) { p.fold.produce(p.producer, n) }

func (p *program) step() {
	p.t.Helper()
	switch x := p.rng.IntN(100); {
	case x < 25:
		p.do("produce", func() { p.produce(1 + p.rng.IntN(25)) })
	case x < 50:
		p.do("load", p.load)
	case x < 60:
		p.do("read an old snapshot", func() {
			if len(p.cuts) > 0 {
				p.read(p.cuts[p.rng.IntN(len(p.cuts))])
			}
		})
	case x < 90:
		p.disturb(p.processes[p.rng.IntN(len(p.processes))])
	case x < 95:
		p.do("all replicas run", func() {
			for _, pr := range p.processes {
				p.mend(pr)
			}
		})
	default:
		p.do("kill Redis", func() { p.redis.Kill(); p.redis.Start() })
	}
}

func (p *program) do(name string, f func()) {
	p.t.Helper()
	p.done[name]++
	f()
}

// disturb does something to a replica. One of each service is left alone.
func (p *program) disturb(pr *process) {
	p.t.Helper()
	if !pr.runs() {
		p.mend(pr)
		return
	}
	for _, other := range p.of(pr.service) {
		if other != pr && !other.runs() {
			p.mend(other)
		}
	}
	switch p.rng.IntN(4) {
	case 0:
		p.do("stop "+pr.service, pr.stop)
	case 1:
		p.do("kill "+pr.service, pr.kill)
	case 2:
		p.do("end "+pr.service, pr.end)
	default:
		p.do("kill and lose the disk of "+pr.service, func() {
			pr.kill()
			p.must(os.RemoveAll(pr.data()))
		})
	}
}

// mend makes a replica run.
func (p *program) mend(pr *process) {
	p.t.Helper()
	switch {
	case pr.cmd == nil:
		p.do("start "+pr.service, func() { pr.start(); pr.awaitReady() })
	case pr.stopped:
		p.do("resume "+pr.service, pr.resume)
	}
}

// patiently repeats a request as engines do: after 503, and when the connection was refused or broke.
func (p *program) patiently(what string, request func() error) {
	p.t.Helper()
	harness.Eventually(p.t, what, func() error {
		p.tries.Add(1)
		err := request()
		if err == nil {
			return nil
		}
		if !repeatable(err) {
			p.t.Fatalf("%s: %v", what, err)
		}
		p.retries.Add(1)
		return err
	})
}

func repeatable(err error) bool {
	var status *readback.StatusError
	if errors.As(err, &status) {
		return status.Code == http.StatusServiceUnavailable
	}
	var network net.Error
	return errors.As(err, &network) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		strings.Contains(err.Error(), "connection reset") || strings.Contains(err.Error(), "server closed") || errors.Is(err, errBehind)
}

// errBehind: the table is served, but not yet up to what was produced.
var errBehind = errors.New("behind")

// load loads the table until it shows everything. What it shows until then is judged too.
func (p *program) load() {
	p.t.Helper()
	warehouse := []string{"v2", "v3"}[p.rng.IntN(2)]
	seen := map[int64]bool{}
	p.patiently("load", func() error {
		tb, err := p.catalog(warehouse).Load(p.t.Context(), table)
		if err != nil {
			return err
		}
		snap, err := tb.Snapshot(0)
		p.must(err)
		ends, err := oracle.Ends(snap, len(p.ends))
		p.must(err)
		if !seen[snap.ID] {
			seen[snap.ID] = true
			rows, err := tb.Rows(p.t.Context(), 0)
			if err != nil {
				delete(seen, snap.ID)
				return err
			}
			p.judge(rows, ends)
			p.cuts = append(p.cuts, cut{warehouse, snap.ID, ends})
		}
		if !slices.Equal(ends, p.ends) {
			return fmt.Errorf("%w: ends %v, want %v", errBehind, ends, p.ends)
		}
		return nil
	})
}

// read reads a snapshot that was seen before.
func (p *program) read(c cut) {
	p.t.Helper()
	p.patiently("read an old snapshot", func() error {
		tb, err := p.catalog(c.warehouse).Load(p.t.Context(), table)
		if err != nil {
			return err
		}
		if _, err := tb.Snapshot(c.snapshot); err != nil {
			return fmt.Errorf("%w: %w", errBehind, err) // a catalog that has not seen it yet
		}
		rows, err := tb.Rows(p.t.Context(), c.snapshot)
		if err != nil {
			return err
		}
		p.judge(rows, c.ends)
		return nil
	})
}

// A replica of dedup that takes over lacks the key runs of the other: it makes those that it needs again, while the
// table is served.
func TestRunsOfAnotherReplicaAreMadeAgain(t *testing.T) {
	in := newInstallation(t, 6, 4)
	f := newFold(t, 2, 9)
	_, err := kadm.NewClient(in.producer).CreateTopic(t.Context(), 2, 1, nil, topic)
	in.must(err)
	f.produce(in.producer, 300)
	judgeEnd(t, in, f)
	for range 3 {
		for _, p := range in.of("dedup") {
			p.stop()
			f.produce(in.producer, 20)
			judgeEnd(t, in, f)
			p.resume()
		}
	}
	remade := 0.0
	for _, p := range in.of("dedup") {
		runs, err := filepath.Glob(filepath.Join(p.data(), "runs", "*", "*.run"))
		in.must(err)
		if len(runs) == 0 {
			t.Errorf("%s has never had a run", p)
		}
		remade += metric(t, p, "frazil_dedup_remade_runs_total")
	}
	if remade == 0 {
		t.Error("no run was made again: the test shows nothing")
	}
	t.Logf("%v runs made again", remade)
}

// Two replicas of dedup that advance one table at the same time, each for its own readers, and one of them stopped for
// a while wherever it is, lose to each other and never spoil anything.
func TestTwoDedupsAdvanceOneTable(t *testing.T) {
	in := install(t, plan{chunk: 6, block: 4, replicas: replicasEach, running: replicasEach, apart: true})
	p := &program{t: t, rng: rand.New(rand.NewPCG(5, 5)), done: map[string]int{}, installation: in, fold: newFold(t, 2, 5)}
	_, err := kadm.NewClient(p.producer).CreateTopic(t.Context(), 2, 1, nil, topic)
	p.must(err)
	p.produce(50)
	p.load()
	for i := range 20 {
		p.produce(1 + p.rng.IntN(10))
		late := in.of("dedup")[i%2]
		if i%3 == 0 {
			late.stop()
			p.produce(5)
			late.resume()
		}
		p.load()
		p.read(p.cuts[p.rng.IntN(len(p.cuts))])
	}
	for _, c := range p.cuts {
		p.read(c)
	}
	rebased, published := 0.0, map[string]float64{}
	for _, d := range in.of("dedup") {
		published[d.String()] = metric(t, d, "frazil_dedup_published_ranges_total")
		rebased += metric(t, d, "frazil_dedup_rebased_ranges_total")
		if published[d.String()] == 0 {
			t.Errorf("%s has published nothing: the test shows nothing", d)
		}
	}
	t.Logf("published %v, rebased %v, %d cuts; %d requests, %d repeated", published, rebased, len(p.cuts), p.tries.Load(), p.retries.Load())
}

// metric is a sum over all labels.
func metric(t *testing.T, p *process, name string) float64 {
	t.Helper()
	v, err := sum("http://"+p.health, name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sum is the sum of a metric over all labels, as a process shows it.
func sum(base, name string) (float64, error) {
	resp, err := http.Get(base + "/metrics")
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for line := range strings.Lines(string(body)) {
		if strings.HasPrefix(line, name) {
			var v float64
			if _, err := fmt.Sscan(line[strings.LastIndexByte(strings.TrimSpace(line), ' ')+1:], &v); err != nil {
				return 0, fmt.Errorf("%s: %w", line, err)
			}
			sum += v
		}
	}
	return sum, nil
}
