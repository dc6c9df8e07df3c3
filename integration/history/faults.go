package history

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/integration/oracle"
	"github.com/frazil-io/frazil/integration/readback"
)

// longestStall is the longest retention that a stalled process is held for.
const longestStall = time.Second

// foldRounds is how many cuts are published in the hope that the process folds something.
const foldRounds = 6

// disturb is what happens to the product and its topic.
func (w *world) disturb(s Step) error {
	switch s.Word {
	case "evict":
		return w.evict(w.some(s.Number(0)))
	case "loseruns":
		i := w.some(s.Number(0))
		return w.between(i, w.Stop, func() error { return os.RemoveAll(filepath.Join(w.Config(i).DataDir, "runs")) })
	case "restart":
		return w.between(w.some(s.Number(0)), w.Stop, nil)
	case "kill":
		return w.kill(w.some(s.Number(0)), time.Duration(s.Number(1))*time.Millisecond, s.Number(2), s.Number(3))
	case "trap":
		return w.trap(s.Text(0), int(s.Number(1)), w.some(s.Number(2)), s.Number(3), s.Number(4))
	case "resume":
		w.resume()
	case "replicas":
		return w.replicas(int(s.Number(0)))
	case "upgrade":
		return w.upgrade(s.Text(0), w.some(s.Number(1)))
	case "rollback":
		return w.rollBack(int(s.Number(0)), s.Text(1))
	case "logstart":
		return w.moveStart(int(s.Number(0))%w.partitions, int64(s.Number(1)))
	case "truncate":
		return w.truncate(int(s.Number(0))%w.partitions, int64(s.Number(1)), s.Number(2), s.Number(3))
	case "recreate":
		return w.recreate(s.Number(0), s.Number(1))
	case "addparts":
		n := int(max(1, s.Number(0)))
		_, err := kadm.NewClient(w.plain).CreatePartitions(w.ctx, n, Topic)
		w.grown, w.added = true, w.added+n
		return err
	}
	return nil
}

// between ends a process, does something, and starts it again. What it knew is forgotten.
func (w *world) between(i int, end func(int) error, do func() error) error {
	if err := end(i); err != nil {
		return fail("stop", "the process ended with %v", err)
	}
	w.forget(i)
	if do != nil {
		if err := do(); err != nil {
			return err
		}
	}
	return must("start", w.Start(w.ctx, i))
}

// stop ends a process; what it knew is forgotten.
func (w *world) stop(i int) error {
	if err := w.Stop(i); err != nil {
		return fail("stop", "the process ended with %v", err)
	}
	w.forget(i)
	return nil
}

func (w *world) forget(i int) {
	w.ended(i)
	delete(w.paused, i)
}

// resume lets whoever is paused go on.
func (w *world) resume() {
	w.Resume()
	clear(w.paused)
}

func (w *world) killed(i int) error {
	return w.between(i, func(i int) error { w.Kill(i); return nil }, nil)
}

// fold publishes cuts until marks were folded. Without a key that comes again there may be nothing to fold.
func (w *world) fold() error {
	if w.empty() || w.grown {
		return nil
	}
	i := w.some(0)
	before := metric(w.Config(i), "frazil_dedup_fold_passes")
	for round := range uint64(foldRounds) {
		if err := w.write(w.plain, 4, round, true); err != nil {
			return err
		}
		if err := w.load("v3", i); err != nil {
			return err
		}
		if metric(w.Config(i), "frazil_dedup_fold_passes") > before {
			w.steps["folded"]++
			return nil
		}
	}
	return nil
}

// evict removes the encoded row groups from under the running process.
func (w *world) evict(i int) error {
	return filepath.WalkDir(filepath.Join(w.Config(i).DataDir, "cache"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			err = os.Remove(path)
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // the process was faster
		}
		return err
	})
}

// busy lets a process work on what is new until it shows all of it, or over is closed. The answer is closed when no
// request is under way.
func (w *world) busy(ctx context.Context, i int) (done <-chan struct{}) {
	client, want, idle := w.catalog(i, "v2"), slices.Clone(w.ends), make(chan struct{})
	go func() {
		defer close(idle)
		for range 20 {
			t, err := client.Load(ctx, table)
			if ctx.Err() != nil {
				return
			}
			if err == nil && shows(t, want) {
				return
			}
		}
	}()
	return idle
}

func shows(t *readback.Table, want []int64) bool {
	s, err := t.Snapshot(0)
	if err != nil {
		return false
	}
	have, err := oracle.Ends(s, len(want))
	return err == nil && slices.Equal(have, want)
}

// kill ends a process while it works on new records.
func (w *world) kill(i int, after time.Duration, n, seed uint64) error {
	if err := w.write(w.plain, n, seed, true); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	idle := w.busy(ctx, i)
	select {
	case <-time.After(after):
	case <-idle:
	}
	err := w.killed(i)
	cancel()
	<-idle
	return err
}

// trap lets something happen to a process at one of its next writes to the state, while it works on new records.
func (w *world) trap(what string, nth, i int, n, seed uint64) error {
	stall := what == string(inprocess.Stall)
	if (what == string(inprocess.Pause) || stall) && w.answering() < 2 {
		return nil // somebody must answer
	}
	if err := w.write(w.plain, n, seed, true); err != nil {
		return err
	}
	sprung := w.Trap(i, what, nth)
	if sprung == nil {
		return nil
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	idle := w.busy(ctx, i)
	hit := false
	select {
	case <-sprung:
		hit = true
	case <-idle:
		w.Disarm(i)
		select {
		case <-sprung:
			hit = true
		default:
		}
	}
	if hit {
		w.traps[what]++
	}
	var err error
	if hit && (what == string(inprocess.DieBefore) || what == string(inprocess.DieAfter)) {
		err = w.killed(i)
		cancel()
	}
	stays := what == string(inprocess.Pause) || stall && seed%4 == 0
	switch {
	case hit && stays:
		w.paused[i] = true
		cancel()
	case hit && stall:
		err = w.meanwhile(seed)
		w.resume()
	}
	<-idle
	return err
}

// meanwhile is what the others do while a process stands still before a compare-and-set: they overtake it, or collect
// what nothing names.
func (w *world) meanwhile(seed uint64) error {
	if seed%3 > 0 || w.retention > longestStall {
		return w.load("v2", w.some(seed))
	}
	select {
	case <-time.After(w.retention + w.retention/2):
	case <-w.ctx.Done():
	}
	return nil
}

func (w *world) answering() (n int) {
	for i := range w.Most() {
		if w.Answers(i) {
			n++
		}
	}
	return n
}

// replicas starts and stops processes until there are so many.
func (w *world) replicas(n int) error {
	w.resume()
	for i := range w.Most() {
		if i < max(1, n) {
			if err := w.Start(w.ctx, i); err != nil {
				return err
			}
			continue
		}
		if err := w.stop(i); err != nil {
			return err
		}
	}
	return nil
}

// upgrade starts processes anew with another encoder: all of them, or one beside the others. Whoever is started later
// has it too.
func (w *world) upgrade(which string, one int) error {
	if !w.Upgrade() {
		return nil
	}
	if which != "one" {
		w.resume()
	}
	var run []int
	for i := range w.Most() {
		if !w.Answers(i) || which == "one" && i != one {
			continue
		}
		run = append(run, i)
		if err := w.stop(i); err != nil {
			return err
		}
	}
	for _, i := range run {
		if err := w.Start(w.ctx, i); err != nil {
			return err
		}
	}
	w.steps["upgraded"]++
	if w.mixed() {
		w.steps["two encoders"]++
	}
	return nil
}

// mixed reports whether two encoders are at work: each process names files after its own, and only there they can be
// made.
func (w *world) mixed() bool {
	one := -1
	for i := range w.Most() {
		e := w.Encoder(i)
		if one >= 0 && e >= 0 && e != one {
			return true
		}
		one = max(one, e)
	}
	return false
}

// rollBack makes the state what it was some loads ago, as a failover to a replica that lags behind does. The
// processes that go on know better; the others are started anew. Who is paused at a write goes on with it later, in the
// state of before.
func (w *world) rollBack(ago int, who string) error {
	if len(w.images) == 0 || w.grown {
		return nil
	}
	var run, anew []int
	for i := range w.Most() {
		if w.Answers(i) {
			run = append(run, i)
		}
	}
	switch who {
	case "none":
		anew = run
	case "one":
		anew = run[1:]
	}
	for _, i := range anew {
		if err := w.stop(i); err != nil {
			return err
		}
	}
	at := max(0, len(w.images)-1-ago)
	w.RollBack(w.images[at])
	w.images = w.images[:at+1]
	w.atRisk()
	// A state epoch may go on below what it has shown of a log that was cut off.
	w.cuts = slices.DeleteFunc(w.cuts, func(c *cut) bool { return c.torn })
	w.held = slices.DeleteFunc(w.held, func(h held) bool { return h.cut.torn })
	maps.DeleteFunc(w.tags, func(_ string, c *cut) bool { return c.torn })
	for _, i := range run[:len(run)-len(anew)] {
		w.unsettled[i] = true
	}
	for _, i := range anew {
		if err := w.Start(w.ctx, i); err != nil {
			return err
		}
	}
	return w.nudge()
}

// ended: a process is no more. If it was one that may have noticed that the state was rolled back, nobody can say whether
// it has made another state epoch.
func (w *world) ended(i int) {
	if w.unsettled[i] {
		w.location = ""
		w.atRisk()
	}
	delete(w.unsettled, i)
}

// atRisk: whatever was seen so far may be forgotten, and whoever is paused does not know.
func (w *world) atRisk() {
	for _, c := range w.cuts {
		c.risky = true
	}
	maps.Copy(w.unsettled, w.paused)
	w.location = ""
}

// truncate cuts a log off, at a share in thousandths of it, as an unclean election does, and writes other records. Who
// has read the others must notice. At its end nothing is lost but the leader.
func (w *world) truncate(p int, share int64, n, seed uint64) error {
	if w.ends[p] == 0 {
		return nil
	}
	end, err := w.broker.truncate(Topic, p, w.logStarts[p]+(w.ends[p]-w.logStarts[p])*share/1000)
	if err != nil {
		return err
	}
	if end < w.ends[p] {
		w.cutOff(p, end)
	}
	return w.write(w.plain, n, seed, true)
}

func (w *world) cutOff(p int, end int64) {
	w.logs, w.ends[p] = slices.Clone(w.logs), end
	w.logs[p] = maps.Clone(w.logs[p])
	maps.DeleteFunc(w.logs[p], func(off int64, _ oracle.Event) bool { return off >= end })
	w.steps["cut off"]++
	for _, c := range w.cuts {
		if c.ends[p] > end {
			c.torn = true
		}
	}
	w.atRisk()
	for i := range w.Most() {
		if w.Answers(i) {
			w.unsettled[i] = true
		}
	}
}

// moveStart removes a share of a log, in thousandths.
func (w *world) moveStart(p int, share int64) error {
	at := w.logStarts[p] + (w.ends[p]-w.logStarts[p])*share/1000
	if at == w.logStarts[p] {
		return nil
	}
	offsets := kadm.Offsets{}
	offsets.AddOffset(Topic, int32(p), at, -1)
	res, err := kadm.NewClient(w.plain).DeleteRecords(w.ctx, offsets)
	if err == nil {
		err = res.Error()
	}
	w.logStarts[p] = at
	return err
}

// recreate deletes the topic and makes it anew: the tables of the one before are refused, in words.
func (w *world) recreate(n, seed uint64) error {
	old := w.held
	maps.Copy(w.unsettled, w.paused) // whoever is late here comes to a topic that is gone
	if _, err := kadm.NewClient(w.plain).DeleteTopic(w.ctx, Topic); err != nil {
		return err
	}
	w.plain.PurgeTopicsFromClient(Topic)
	w.txn.PurgeTopicsFromClient(Topic)
	if err := w.create(); err != nil {
		return err
	}
	if err := w.write(w.plain, max(1, n), seed, true); err != nil || w.empty() {
		return err
	}
	for i := range w.Most() {
		if !w.Answers(i) {
			continue
		}
		if err := w.peek(i); err != nil {
			return err
		}
	}
	for _, h := range old {
		if err := w.mustBeGone(h, "the topic before"); err != nil {
			return err
		}
	}
	return nil
}
