package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

const (
	// patience is how long a component may take to start or stop, and a condition to come true. It is there to end a
	// test that hangs, not to measure.
	patience = 90 * time.Second
	poll     = 25 * time.Millisecond
)

// Eventually waits for a condition and fails the test if it does not come true. The condition answers why not.
func Eventually(t testing.TB, what string, holds func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := holds()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s in vain: %s: %v", patience, what, err)
		}
	}
}

// port is the port of an address.
func port(t testing.TB, addr string) string {
	t.Helper()
	_, p, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// process is a child process whose output goes to a file.
type process struct {
	name string
	cmd  *exec.Cmd
	log  string // file
	done chan struct{}
	err  error // set when done is closed
}

// start runs a child. The end of the test kills it and, if the test has failed, shows the end of its output.
func start(t testing.TB, name, logDir string, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{name: name, cmd: cmd, log: filepath.Join(logDir, name+".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close() //nolint:errcheck // the child has its own handle
	cmd.Stdout, cmd.Stderr = out, out
	// A test binary that is killed takes its children with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	go func() {
		p.err = cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("%s printed last:\n%s", name, p.tail())
		}
	})
	return p
}

func (p *process) tail() string {
	out, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return tail(out)
}

// running is nil while the child runs.
func (p *process) running() error {
	select {
	case <-p.done:
		return fmt.Errorf("%s has ended: %v\n%s", p.name, p.err, p.tail())
	default:
		return nil
	}
}

// stop asks the child to end, waits for it and answers how it ended.
func (p *process) stop(t testing.TB) error {
	t.Helper()
	// The child may have ended already.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		p.kill()
		t.Fatalf("%s did not end within %s\n%s", p.name, patience, p.tail())
		return nil
	}
}

// kill ends the child at once, as a crash would.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}
