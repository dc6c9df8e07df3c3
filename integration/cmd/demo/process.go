package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/frazil-io/frazil/libs/freeport"
)

//go:embed engines.py
var enginesScript string

// gateway is a running bin/frazil, or one process for each service of it.
type gateway struct {
	processes []*exec.Cmd // in starting order
	ports     freeport.Ports
	uri       string
	dir       string // logs and data
}

// startGateway runs `frazil up` and waits until it is ready. With split it runs each service in a process of its own,
// two of them materializers.
func startGateway(ctx context.Context, binary, broker, dir string, split bool) (*gateway, error) {
	g := &gateway{dir: dir}
	addresses, err := g.addresses(2)
	if err != nil {
		return nil, err
	}
	rest, s3 := addresses[0], addresses[1]
	g.uri = "http://" + rest
	if split {
		err = g.launchSplit(ctx, binary, broker, rest, s3)
	} else {
		err = g.launch(ctx, "frazil", nil, binary, "up", "--brokers", broker, "--data-dir", filepath.Join(dir, "data"),
			"--rest-listen", rest, "--s3-listen", s3)
	}
	if err == nil {
		err = g.awaitReady(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
}

// launch starts one process with a log of its own.
func (g *gateway) launch(ctx context.Context, name string, environ []string, binary string, args ...string) error {
	log, err := os.Create(filepath.Join(g.dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // the child has its own handle
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = append(os.Environ(), environ...)
	cmd.Stdout, cmd.Stderr = log, log
	// The end of ctx does not kill: stop asks, in order.
	cmd.Cancel = func() error { return nil }
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", binary, err)
	}
	g.processes = append(g.processes, cmd)
	return nil
}

// launchSplit starts the services from one file, as an installation would; what differs comes from the environment.
func (g *gateway) launchSplit(ctx context.Context, binary, broker, rest, s3 string) error {
	addresses, err := g.addresses(9)
	if err != nil {
		return err
	}
	catalog, dedup, first, second, health := addresses[0], addresses[1], addresses[2], addresses[3], addresses[4:]
	file := filepath.Join(g.dir, "frazil.yaml")
	text := fmt.Sprintf(`kafka: {brokers: ["%s"]}
rest: {listen: "%s"}
s3: {listen: "%s"}
services:
  catalog: "%s"
  dedup: "%s"
  materializer: "%s,%s"
  listen: {catalog: "%s", dedup: "%s"}
cluster: {secret: only-for-this-demo-only-for-this-demo}
`, broker, rest, s3, catalog, dedup, first, second, catalog, dedup)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return err
	}
	for i, p := range []struct{ name, target, listen string }{
		{"dedup", "dedup", first}, {"materializer-1", "materializer", first}, {"materializer-2", "materializer", second},
		{"catalog", "catalog", first}, {"edge", "edge", first},
	} {
		environ := []string{
			"FRAZIL_DATA_DIR=" + filepath.Join(g.dir, "data-"+p.name),
			"FRAZIL_HEALTH__LISTEN=" + health[i],
			"FRAZIL_SERVICES__LISTEN__MATERIALIZER=" + p.listen,
		}
		if err := g.launch(ctx, p.name, environ, binary, "serve", "--target="+p.target, "--config="+file); err != nil {
			return err
		}
	}
	return nil
}

func (g *gateway) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, g.uri+"/readyz", nil)
		if err != nil {
			return err
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			if err := resp.Body.Close(); err != nil {
				return err
			}
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("frazil did not get ready, see the logs in %s", g.dir)
		case <-tick.C:
		}
	}
}

// stop asks for a graceful end, the last first, and waits for it.
func (g *gateway) stop() error {
	var errs []error
	for i := len(g.processes) - 1; i >= 0; i-- {
		p := g.processes[i]
		if err := p.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
			errs = append(errs, err)
		}
		if err := p.Wait(); err != nil {
			errs = append(errs, fmt.Errorf("frazil did not end well, see the logs in %s: %w", g.dir, err))
		}
	}
	return errors.Join(append(errs, g.ports.Release())...)
}

// addresses are n loopback addresses that are the gateway's until it has stopped.
func (g *gateway) addresses(n int) ([]string, error) {
	var all []string
	for range n {
		address, err := g.ports.Address()
		if err != nil {
			return nil, err
		}
		all = append(all, address)
	}
	return all, nil
}

// engines is the Python process with DuckDB and PyIceberg in it.
type engines struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	uri string
}

func startEngines(ctx context.Context, python, uri string) (*engines, error) {
	e := &engines{cmd: exec.CommandContext(ctx, python, "-c", enginesScript), uri: uri}
	e.cmd.Stderr = os.Stderr
	var err error
	if e.in, err = e.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	e.out = bufio.NewReaderSize(out, 1<<20)
	if err := e.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", python, err)
	}
	return e, nil
}

// ask puts one question. into receives the answer.
func (e *engines) ask(question map[string]any, into any) error {
	question["uri"] = e.uri
	line, err := json.Marshal(question)
	if err != nil {
		return err
	}
	if _, err := e.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("ask the engines: %w", err)
	}
	line, err = e.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("hear the engines: %w", err)
	}
	var answer struct {
		Answer json.RawMessage
		Error  string
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return fmt.Errorf("hear the engines: %w", err)
	}
	if answer.Error != "" {
		return fmt.Errorf("%v: %s", question["op"], answer.Error)
	}
	return json.Unmarshal(answer.Answer, into)
}

func (e *engines) stop() error {
	if err := e.in.Close(); err != nil {
		return err
	}
	return e.cmd.Wait()
}
