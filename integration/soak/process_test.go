package soak

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

const topic = "shop.items"

// patience is how long the product may take to do what it must.
const patience = 90 * time.Second

// gateway is the product in a process of its own.
type gateway struct {
	dir  string
	rest string
	cmd  *exec.Cmd
	done chan struct{}
}

// newGateway writes the configuration.
func newGateway(dir string, p program, brokers []string, rest, s3 string) (*gateway, error) {
	c := app.Default()
	c.DataDir, c.Kafka.Brokers = filepath.Join(dir, "data"), brokers
	c.REST.Listen, c.S3.Listen = rest, s3
	c.Freshness.OffsetsTTL, c.Freshness.MinCutInterval, c.Freshness.TopicsTTL = time.Millisecond, time.Millisecond, time.Millisecond
	c.Tables = map[string]app.TableConfig{topic: {Dedup: dedup.TableConfig{ChunkLog2: p.setting("chunk"), BlockLog2: p.setting("block")}}}
	ms := func(name string) time.Duration { return time.Duration(p.setting(name)) * time.Millisecond }
	c.Snapshots.Retention, c.Snapshots.Dense, c.Snapshots.Every = ms("retention"), ms("dense"), 20*time.Millisecond
	c.Dedup.CollectEvery = 50 * time.Millisecond
	c.Dedup.Fold = dedup.FoldConfig{Every: 5 * time.Millisecond, MinMarks: p.setting("fold"), MaxMarks: p.setting("pass")}
	text, err := config.Show(c)
	if err != nil {
		return nil, err
	}
	return &gateway{dir: dir, rest: c.REST.Listen}, os.WriteFile(filepath.Join(dir, "frazil.yaml"), text, 0o600)
}

func (g *gateway) start() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FRAZIL_") })
	cmd.Env = append(cmd.Env, child+"="+filepath.Join(g.dir, "frazil.yaml"))
	out, err := os.OpenFile(filepath.Join(g.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	g.cmd, g.done = cmd, make(chan struct{})
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(g.done)
	}()
	return until(func() error {
		select {
		case <-g.done:
			return &ended{"the process has ended by itself"}
		default:
		}
		res, err := http.Get("http://" + g.rest + "/readyz")
		if err != nil {
			return err
		}
		if res.Body.Close(); res.StatusCode != http.StatusOK {
			return fmt.Errorf("not ready: %s", res.Status)
		}
		return nil
	})
}

// kill ends the process as a crash does.
func (g *gateway) kill() {
	if g.cmd == nil {
		return
	}
	_ = g.cmd.Process.Kill() // it may have ended already
	<-g.done
	g.cmd = nil
}

// stop ends it as an operator does.
func (g *gateway) stop() error {
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-g.done:
	case <-time.After(patience):
		return fmt.Errorf("the process does not end")
	}
	code := g.cmd.ProcessState.ExitCode()
	g.cmd = nil
	if code != 0 {
		return fmt.Errorf("the process ended with %d", code)
	}
	return nil
}

// metric answers a counter of the process, 0 if it does not answer.
func (g *gateway) metric(name string) float64 {
	res, err := http.Get("http://" + g.rest + "/metrics")
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	sum := 0.0
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if line := lines.Text(); strings.HasPrefix(line, name) {
			if v, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64); err == nil {
				sum += v
			}
		}
	}
	return sum
}

// log is what the process said last, and everything that it warned of.
func (g *gateway) log() string {
	b, err := os.ReadFile(filepath.Join(g.dir, "log"))
	if err != nil {
		return err.Error()
	}
	lines := slices.DeleteFunc(strings.Split(string(b), "\n"), func(l string) bool { return strings.Contains(l, "level=DEBUG") })
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// ended is an error that waiting does not mend.
type ended struct{ text string }

func (e *ended) Error() string { return e.text }

// until repeats try until it succeeds, for as long as patience lasts.
func until(try func() error) error {
	deadline := time.After(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if _, over := err.(*ended); err == nil || over {
			return err
		}
		select {
		case <-deadline:
			return err
		case <-tick.C:
		}
	}
}
