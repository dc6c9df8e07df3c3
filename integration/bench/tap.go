package bench

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// tap forwards connections to a server and counts what passes, so that the bytes of every client are counted alike.
type tap struct {
	listener net.Listener
	to       string // host:port
	// received and sent are bytes as the clients see them, headers included.
	received, sent atomic.Int64
	conns          sync.WaitGroup
	mu             sync.Mutex
	open           map[net.Conn]bool
}

// newTap listens on a port of its own.
func newTap(to string) (*tap, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	t := &tap{listener: l, to: to, open: map[net.Conn]bool{}}
	t.conns.Go(t.accept)
	return t, nil
}

// url is where clients find the server.
func (t *tap) url() string { return "http://" + t.listener.Addr().String() }

// close ends all connections.
func (t *tap) close() error {
	err := t.listener.Close()
	t.mu.Lock()
	for c := range t.open {
		err = errors.Join(err, c.Close())
	}
	t.open = nil
	t.mu.Unlock()
	t.conns.Wait()
	return err
}

func (t *tap) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return // it was closed
		}
		server, err := net.Dial("tcp", t.to)
		if err != nil {
			_ = client.Close() // the client sees it
			continue
		}
		if !t.keep(client, server) {
			return
		}
		t.conns.Go(func() { t.pass(client, server, &t.received) })
		t.conns.Go(func() { t.pass(server, client, &t.sent) })
	}
}

// keep notes connections to be closed; false if the tap is closed.
func (t *tap) keep(conns ...net.Conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range conns {
		if t.open == nil {
			_ = c.Close() // nobody uses it yet
			continue
		}
		t.open[c] = true
	}
	return t.open != nil
}

// pass copies until one side has ended, and ends the other.
func (t *tap) pass(to, from net.Conn, n *atomic.Int64) {
	_, _ = io.Copy(&counted{to, n}, from) // the client sees what went wrong
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range []net.Conn{to, from} {
		if t.open[c] {
			_ = c.Close() // as above
			delete(t.open, c)
		}
	}
}

// counted counts what is written.
type counted struct {
	io.Writer
	n *atomic.Int64
}

// Write implements io.Writer.
func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	c.n.Add(int64(n))
	return n, err
}
