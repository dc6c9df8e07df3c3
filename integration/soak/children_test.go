package soak

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/history"
	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore/redistest"
	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/freeport"
	"github.com/frazil-io/frazil/services/app"
)

// patience is how long a process may take to come up or to end.
const patience = 90 * time.Second

// children is the product in processes of its own: one over a disk, or several over a Redis.
type children struct {
	all   []*child
	redis *redistest.Server // nil: the state is on disk
	ports freeport.Ports
	// builds are the executables: the test itself, and one with another encoder, if there is one.
	builds []string
	build  int
}

// child is one process.
type child struct {
	config  app.Config
	dir     string
	cmd     *exec.Cmd // nil: it does not run
	build   int       // of the executable
	done    chan struct{}
	stopped bool          // by SIGSTOP
	trap    func() bool   // ends a timer of a trap
	late    chan struct{} // closed when no trap is at work
}

// opener makes products for a test. other is an executable with another encoder, "" if there is none.
func opener(t *testing.T, other string) history.Opener {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	builds := []string{self}
	if other != "" {
		builds = append(builds, other)
	}
	return func(p history.Program, dir string, brokers []string) (history.Product, error) {
		switch p.Text("store") {
		case "memory":
			return history.InMemory(p, dir, brokers)
		case "redis":
			return newChildren(p, dir, brokers, redistest.Start(t), builds)
		default:
			return newChildren(p.With("processes", "1"), dir, brokers, nil, builds)
		}
	}
}

func newChildren(p history.Program, dir string, brokers []string, redis *redistest.Server, builds []string) (history.Product, error) {
	cs := &children{redis: redis, builds: builds}
	for i := range max(1, p.Setting("processes")) {
		c, err := history.Configure(p, dir, i, brokers, &cs.ports)
		if err != nil {
			cs.Close()
			return nil, err
		}
		if redis != nil {
			c.State.Kind, c.State.Redis.Addresses, c.State.Redis.Timeout = app.StateRedis, []string{redis.Addr}, time.Second
		}
		one := &child{config: c, dir: c.DataDir}
		cs.all = append(cs.all, one)
		text, err := config.Show(c)
		if err == nil {
			err = errors.Join(os.MkdirAll(one.dir, 0o700), os.WriteFile(one.file(), text, 0o600))
		}
		if err != nil {
			cs.Close()
			return nil, err
		}
	}
	return cs, nil
}

func (c *child) file() string { return c.dir + ".yaml" }

func (c *child) log() string { return c.dir + ".log" }

// Most implements history.Product, as do the following.
func (cs *children) Most() int { return len(cs.all) }

func (cs *children) Start(ctx context.Context, i int) error {
	c := cs.all[i]
	if c.cmd != nil {
		return nil
	}
	cmd := exec.Command(cs.builds[cs.build])
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
	cmd.Env = append(cmd.Env, childFile+"="+c.file())
	out, err := os.OpenFile(c.log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
	c.cmd, c.done, c.stopped, c.build = cmd, done, false, cs.build
	return c.awaitReady(ctx)
}

func (c *child) awaitReady(ctx context.Context) error {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		res, err := http.Get("http://" + c.config.REST.Listen + "/readyz")
		if err == nil {
			if err = res.Body.Close(); err == nil && res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.Join(err, errors.New(res.Status))
		}
		select {
		case <-tick.C:
		case <-c.done:
			return errors.New("the process has ended by itself")
		case <-deadline:
			return fmt.Errorf("not ready: %w", err)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (cs *children) Stop(i int) error {
	c := cs.all[i]
	if c.cmd == nil {
		return nil
	}
	c.resume()
	if err := c.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-c.done:
	case <-time.After(patience):
		return errors.New("the process does not end")
	}
	code := c.cmd.ProcessState.ExitCode()
	c.cmd = nil
	if code != 0 {
		return fmt.Errorf("exit code %d", code)
	}
	return nil
}

func (cs *children) Kill(i int) {
	c := cs.all[i]
	if c.cmd == nil {
		return
	}
	cs.Disarm(i)
	_ = c.cmd.Process.Kill() // it may have ended already
	<-c.done
	c.cmd = nil
}

func (cs *children) Answers(i int) bool {
	c := cs.all[i]
	if c.trap != nil {
		select {
		case <-c.late:
			cs.Disarm(i) // it has sprung: what became of the process?
		default:
		}
	}
	return c.cmd != nil && !c.stopped
}

func (cs *children) Config(i int) app.Config { return cs.all[i].config }

// Trap knows nothing of writes here: the trap springs after some milliseconds in the place of the n-th write.
func (cs *children) Trap(i int, what string, n int) <-chan struct{} {
	c := cs.all[i]
	sprung, signal := make(chan struct{}), syscall.SIGKILL
	switch inprocess.Trap(what) {
	case inprocess.DieBefore, inprocess.DieAfter:
	case inprocess.Pause, inprocess.Stall:
		signal = syscall.SIGSTOP
	default:
		return nil
	}
	process, late := c.cmd.Process, make(chan struct{})
	timer := time.AfterFunc(time.Duration(n)*2*time.Millisecond, func() {
		_ = process.Signal(signal) // it may have ended already
		close(sprung)
		close(late)
	})
	c.late = late
	c.trap = func() bool {
		if timer.Stop() {
			return true
		}
		<-late
		c.stopped = c.stopped || signal == syscall.SIGSTOP
		return false
	}
	return sprung
}

func (cs *children) Disarm(i int) {
	if c := cs.all[i]; c.trap != nil {
		c.trap()
		c.trap = nil
	}
}

func (cs *children) Resume() {
	for _, c := range cs.all {
		c.resume()
	}
}

func (c *child) resume() {
	if c.trap != nil {
		c.trap()
		c.trap = nil
	}
	if c.stopped && c.cmd != nil {
		_ = c.cmd.Process.Signal(syscall.SIGCONT) // it may have ended already
	}
	c.stopped = false
}

func (cs *children) Image() any {
	if cs.redis == nil {
		return nil
	}
	return cs.redis.Dump()
}

func (cs *children) RollBack(image any) { cs.redis.Load(image.(redistest.Image)) }

func (cs *children) Upgrade() bool {
	cs.build = (cs.build + 1) % len(cs.builds)
	return len(cs.builds) > 1
}

func (cs *children) Encoder(i int) int {
	if cs.all[i].cmd == nil {
		return -1
	}
	return cs.all[i].build
}

func (cs *children) Log() string {
	var out []string
	for _, c := range cs.all {
		b, err := os.ReadFile(c.log())
		if err != nil {
			continue // it never ran
		}
		out = append(append(out, filepath.Base(c.dir)+":"), history.LastLines(string(b))...)
	}
	return strings.Join(out, "\n")
}

func (cs *children) Close() {
	for i := range cs.all {
		cs.Kill(i)
	}
	_ = cs.ports.Release() // the next one finds others
	if cs.redis != nil {
		cs.redis.Kill()
	}
}
