package history

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/freeport"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

// Product is the processes of the product that serve one topic. Each is all four services; they share nothing but the
// state, where there is one that can be shared. Used by one goroutine, except where it says otherwise.
type Product interface {
	// Most is how many processes there can be.
	Most() int
	Start(ctx context.Context, i int) error
	// Stop ends a process as an operator does, Kill as a crash does. Either is nothing where none runs.
	Stop(i int) error
	Kill(i int)
	// Answers reports whether a process runs and is not paused.
	Answers(i int) bool
	Config(i int) app.Config
	// Trap lets something happen to a process at its n-th write to the state from now on. nil: this product cannot.
	Trap(i int, what string, n int) (sprung <-chan struct{})
	// Disarm removes a trap that has not sprung.
	Disarm(i int)
	// Resume lets all processes that are paused go on.
	Resume()
	// Image is the state as it is, RollBack makes it so again. nil: this product cannot.
	Image() any
	RollBack(image any)
	// Upgrade lets processes that are started from now on have another encoder, or again the one before. false: this
	// product cannot.
	Upgrade() bool
	// Encoder is which encoder a process has that runs, or stands still; -1: none does.
	Encoder(i int) int
	// Log is what the processes said last.
	Log() string
	Close()
}

// Opener makes the product that a program asks for, with no process running. dir is its own.
type Opener func(p Program, dir string, brokers []string) (Product, error)

// CredentialsKey signs the credentials of all processes.
const CredentialsKey = "one-key-for-all-processes-of-a-program"

// traps are what Trap knows.
func traps() []string {
	return []string{
		string(inprocess.DieBefore), string(inprocess.DieAfter), string(inprocess.Pause), string(inprocess.Refuse),
		string(inprocess.LoseReply), string(inprocess.Stall),
	}
}

// Configure is the configuration of process i of a program; its addresses are added to ports.
func Configure(p Program, dir string, i int, brokers []string, ports *freeport.Ports) (app.Config, error) {
	c := app.Default()
	for _, listen := range []*string{&c.REST.Listen, &c.S3.Listen} {
		var err error
		if *listen, err = ports.Address(); err != nil {
			return c, err
		}
	}
	c.DataDir, c.Kafka.Brokers = filepath.Join(dir, fmt.Sprintf("process-%d", i)), brokers
	ms := func(name string) time.Duration { return time.Duration(p.Setting(name)) * time.Millisecond }
	c.Freshness.OffsetsTTL, c.Freshness.MinCutInterval, c.Freshness.TopicsTTL = time.Millisecond, time.Millisecond, time.Millisecond
	c.Freshness.BackgroundInterval = max(time.Millisecond, ms("background"))
	c.Tables = map[string]app.TableConfig{Topic: {Dedup: dedup.TableConfig{ChunkLog2: p.Setting("chunk"), BlockLog2: p.Setting("block")}}}
	// One, two or four chunks are published at a time.
	c.Dedup.PublishOffsets = 1 << (p.Setting("chunk") + (p.Setting("chunk")+p.Setting("block"))%3)
	if c.Plan = p.Text("plan"); c.Plan == "" {
		c.Plan = dedup.PlanEager
	}
	c.OnBadRecord, c.Room = dedup.BadRecordSkip, 1<<20
	c.Credentials.Key = config.NewSecret(CredentialsKey)
	c.Cache.MaxBytes = config.Size(p.Setting("cache"))
	c.Snapshots.Retention, c.Snapshots.Dense, c.Snapshots.Every = ms("retention"), ms("dense"), 20*time.Millisecond
	c.Dedup.Parallel, c.Dedup.CollectEvery = max(1, p.Setting("parallel")), 20*time.Millisecond
	c.Dedup.Fold = dedup.FoldConfig{Every: 5 * time.Millisecond, MinMarks: max(1, p.Setting("fold")), MaxMarks: max(1, p.Setting("pass"))}
	return c, nil
}

// InMemory is a product within this process: its processes share a state in memory.
func InMemory(p Program, dir string, brokers []string) (Product, error) {
	m := &memory{state: inprocess.NewState(), log: &tail{}}
	for i := range max(1, p.Setting("processes")) {
		c, err := Configure(p, dir, i, brokers, &m.ports)
		if err != nil {
			m.Close()
			return nil, err
		}
		m.gates = append(m.gates, inprocess.NewGate(m.state))
		m.processes = append(m.processes, &inprocess.Process{Config: c, Log: m.log})
	}
	return m, nil
}

type memory struct {
	state     *inprocess.State
	processes []*inprocess.Process
	gates     []*inprocess.Gate
	ports     freeport.Ports
	log       *tail
}

func (m *memory) Most() int { return len(m.processes) }

func (m *memory) Start(ctx context.Context, i int) error {
	if m.processes[i].Running() {
		return nil
	}
	m.gates[i] = inprocess.NewGate(m.state)
	m.processes[i].Store = m.gates[i]
	return m.processes[i].Start(ctx)
}

func (m *memory) Stop(i int) error {
	m.gates[i].Resume()
	return m.processes[i].Stop()
}

func (m *memory) Kill(i int) {
	m.gates[i].Kill()
	_ = m.processes[i].Stop() // a process that has died has no word in it
}

func (m *memory) Answers(i int) bool { return m.processes[i].Running() && !m.gates[i].Paused() }

func (m *memory) Config(i int) app.Config { return m.processes[i].Config }

func (m *memory) Trap(i int, what string, n int) <-chan struct{} {
	return m.gates[i].Set(inprocess.Trap(what), n)
}

func (m *memory) Disarm(i int) { m.gates[i].Disarm() }

func (m *memory) Resume() {
	for _, g := range m.gates {
		g.Resume()
	}
}

func (m *memory) Image() any { return m.state.Image() }

func (m *memory) RollBack(image any) { m.state.Load(image.(inprocess.Image)) }

func (m *memory) Upgrade() bool { return false }

func (m *memory) Encoder(i int) int {
	if m.processes[i].Running() {
		return 0
	}
	return -1
}

func (m *memory) Log() string { return m.log.String() }

func (m *memory) Close() {
	for i, p := range m.processes {
		if p.Running() {
			m.Kill(i)
		}
	}
	_ = m.ports.Release() // the next one finds others
}

// tail keeps the last lines of a log that are not for debugging. Safe for concurrent use.
type tail struct {
	mu    sync.Mutex
	lines []string
}

const tailLines = 25

// Write takes whole lines.
func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, LastLines(string(b))...)
	t.lines = t.lines[max(0, len(t.lines)-tailLines):]
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// LastLines answers the last lines of a log that are not for debugging.
func LastLines(log string) []string {
	var out []string
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=DEBUG") {
			out = append(out, strings.TrimSuffix(line, "\n"))
		}
	}
	return out[max(0, len(out)-tailLines):]
}

// tempDir makes a directory that remove removes.
func tempDir() (dir string, remove func(), err error) {
	dir, err = os.MkdirTemp("", "history")
	return dir, func() { _ = os.RemoveAll(dir) }, err // one that stays is no failure
}
