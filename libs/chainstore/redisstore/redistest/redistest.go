// Package redistest runs real Redis servers for tests: alone, as a Cluster, or behind a Sentinel.
package redistest

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/frazil-io/frazil/libs/freeport"
)

// executable is server and Sentinel in one.
const executable = "redis-server"

// patience is how long a server may take to come up. It ends a test that hangs and measures nothing.
const patience = time.Minute

// Server is a Redis server on this machine with an append-only file that is synced at every write. It ends with the
// test.
type Server struct {
	// Addr is host:port.
	Addr string
	// Client is connected to it.
	Client *redis.Client

	t    testing.TB
	mode []string // arguments beside the configuration
	dir  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Start starts a server. args follow the configuration that the helper chooses. The test is skipped on a machine
// without redis-server.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := prepare(t)
	conf := append([]string{
		"bind 127.0.0.1", "port " + s.port(), "dir " + s.dir, "appendonly yes", "appendfsync always", `save ""`,
		"maxmemory-policy noeviction", "enable-debug-command local",
	}, args...)
	s.configure(conf)
	s.Start()
	return s
}

// Sentinel starts a Sentinel that watches master under the name.
func Sentinel(t testing.TB, name string, master *Server) *Server {
	t.Helper()
	s := prepare(t, "--sentinel")
	host, port, err := net.SplitHostPort(master.Addr)
	s.must(err)
	s.configure([]string{
		"bind 127.0.0.1", "port " + s.port(), "dir " + s.dir, fmt.Sprintf("sentinel monitor %s %s %s 1", name, host, port),
		"sentinel down-after-milliseconds " + name + " 500", "sentinel failover-timeout " + name + " 3000",
	})
	s.Start()
	return s
}

func prepare(t testing.TB, mode ...string) *Server {
	t.Helper()
	if _, err := exec.LookPath(executable); err != nil {
		t.Skipf("SKIPPED: %s is not installed (Debian: apt-get install redis-server)", executable)
	}
	s := &Server{t: t, mode: mode, dir: t.TempDir(), Addr: freeport.Address(t)}
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	t.Cleanup(func() {
		s.Kill()
		s.must(s.Client.Close())
	})
	return s
}

func (s *Server) port() string { return s.Addr[strings.LastIndexByte(s.Addr, ':')+1:] }

func (s *Server) conf() string { return filepath.Join(s.dir, "redis.conf") }

func (s *Server) configure(lines []string) {
	s.t.Helper()
	s.must(os.WriteFile(s.conf(), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
}

// Start starts the server again, with what it left on disk, and waits until it answers.
func (s *Server) Start() {
	s.t.Helper()
	cmd := exec.Command(executable, append([]string{s.conf()}, s.mode...)...)
	out, err := os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	s.must(err)
	defer out.Close() //nolint:errcheck // the child has its own
	cmd.Stdout, cmd.Stderr = out, out
	// A test binary that is killed takes its children with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.must(cmd.Start())
	done := make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended does not matter
		close(done)
	}()
	s.cmd, s.done = cmd, done
	s.Until("answers", func() error { return s.Client.Ping(s.t.Context()).Err() })
}

// Kill ends the server as a crash would. One that does not run stays so.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended already
	<-s.done
	s.cmd = nil
}

// Pause stops the process where it is; Continue lets it go on.
func (s *Server) Pause() { s.must(s.cmd.Process.Signal(syscall.SIGSTOP)) }

// Continue lets a paused process go on.
func (s *Server) Continue() { s.must(s.cmd.Process.Signal(syscall.SIGCONT)) }

// Until repeats try until it succeeds; the test fails when that takes too long.
func (s *Server) Until(what string, try func() error) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.t.Context()), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			log, _ := os.ReadFile(filepath.Join(s.dir, "log")) // what there is
			s.t.Fatalf("%s at %s: %s: %v\n%s", executable, s.Addr, what, err, log[max(0, len(log)-2000):])
		}
	}
}

// Image is all keys of a server at one time.
type Image map[string]entry

type entry struct {
	dump string
	ttl  time.Duration // 0: for good
}

// dump is a script that answers key, value and time to live, milliseconds, of every key.
const dump = `
local out = {}
for _, k in ipairs(redis.call('KEYS', '*')) do
  out[#out + 1] = k
  out[#out + 1] = redis.call('DUMP', k)
  out[#out + 1] = redis.call('PTTL', k)
end
return out`

// Dump reads everything, in one step: others may be writing.
func (s *Server) Dump() Image {
	s.t.Helper()
	flat, err := s.Client.Eval(s.t.Context(), dump, nil).Slice()
	s.must(err)
	out := Image{}
	for e := range slices.Chunk(flat, 3) {
		out[e[0].(string)] = entry{e[1].(string), max(0, time.Duration(e[2].(int64))*time.Millisecond)}
	}
	return out
}

// Load makes everything what it was, as a failover to a replica that lags behind does: it is one step.
func (s *Server) Load(image Image) {
	s.t.Helper()
	_, err := s.Client.TxPipelined(s.t.Context(), func(pipe redis.Pipeliner) error {
		pipe.FlushAll(s.t.Context())
		for k, e := range image {
			pipe.Restore(s.t.Context(), k, e.ttl, e.dump)
		}
		return nil
	})
	s.must(err)
}

// Cluster starts n masters that share the slots of a Redis Cluster.
func Cluster(t testing.TB, n int) []*Server {
	t.Helper()
	const slots = 16384
	var servers []*Server
	for i := range n {
		s := Start(t, "cluster-enabled yes", "cluster-node-timeout 2000")
		s.must(s.Client.ClusterAddSlotsRange(t.Context(), i*slots/n, (i+1)*slots/n-1).Err())
		s.must(s.Client.Do(t.Context(), "CLUSTER", "SET-CONFIG-EPOCH", i+1).Err())
		servers = append(servers, s)
	}
	for _, s := range servers[1:] {
		s.must(servers[0].Client.ClusterMeet(t.Context(), "127.0.0.1", s.port()).Err())
	}
	for _, s := range servers {
		s.Until("the cluster is complete", func() error {
			info, err := s.Client.ClusterInfo(t.Context()).Result()
			if err == nil && (!strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, fmt.Sprintf("cluster_known_nodes:%d", n))) {
				err = fmt.Errorf("%s", bytes.TrimSpace([]byte(info)))
			}
			return err
		})
	}
	return servers
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("%s at %s: %v", executable, s.Addr, err)
	}
}
