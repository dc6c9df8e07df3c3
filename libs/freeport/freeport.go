// Package freeport gives out loopback addresses to tests and demonstrations that must name an address before its server
// listens: a process that they start, or one that is stopped and started again where it was.
//
// An address got by listening on port 0 and closing again is not fit for that: the kernel may give its port to the next
// connection that any process opens. The ports here lie below the ephemeral ranges of Linux (32768 to 60999) and macOS
// (49152 to 65535), and so do those 10000 above, where a node of a Redis Cluster has its bus.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

const first, end = 20000, 22700

// bus is how far above its own port a node of a Redis Cluster listens for the other nodes.
const bus = 10000

// Port is a port that nobody else gets from this package, on the whole machine, until it is released.
type Port struct {
	number int
	lock   *os.File
}

// Reserve finds a port on which, and on the one 10000 above it, nothing listens. Safe for concurrent use, also by several
// processes: a port is held by a lock on a file, which the kernel frees when the process ends, however it ends.
func Reserve() (*Port, error) {
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("frazil-ports-%d", os.Getuid()))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	start := rand.IntN(end - first)
	for i := range end - first {
		p, err := hold(dir, first+(start+i)%(end-first))
		if err != nil {
			return nil, err
		}
		if p != nil {
			return p, nil
		}
	}
	return nil, fmt.Errorf("no free port in %d to %d: stop some of the servers there", first, end)
}

// hold takes a port, or is nil if it is taken already.
func hold(dir string, number int) (*Port, error) {
	f, err := os.OpenFile(filepath.Join(dir, fmt.Sprint(number)), os.O_CREATE|os.O_RDWR|syscall.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil && silent(number) && silent(number+bus) {
		return &Port{number: number, lock: f}, nil
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = nil
	}
	return nil, errors.Join(err, f.Close())
}

func silent(port int) bool {
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && l.Close() == nil
}

// Address is host and port.
func (p *Port) Address() string { return fmt.Sprintf("127.0.0.1:%d", p.number) }

// Release lets others have the port.
func (p *Port) Release() error { return p.lock.Close() }

// Ports are the reserved ports of one owner, who calls Release in the end. Not for concurrent use.
type Ports []*Port

// Address reserves one more.
func (ps *Ports) Address() (string, error) {
	p, err := Reserve()
	if err != nil {
		return "", err
	}
	*ps = append(*ps, p)
	return p.Address(), nil
}

// Release lets others have all of them.
func (ps *Ports) Release() error {
	var errs []error
	for _, p := range *ps {
		errs = append(errs, p.Release())
	}
	*ps = nil
	return errors.Join(errs...)
}

// TB is what Address needs of a testing.TB.
type TB interface {
	Helper()
	Fatal(args ...any)
	Cleanup(func())
}

// Address is an address that is the test's until it ends.
func Address(t TB) string {
	t.Helper()
	p, err := Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
	})
	return p.Address()
}
