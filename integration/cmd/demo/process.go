package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

//go:embed engines.py
var enginesScript string

// gateway is a running bin/frazil.
type gateway struct {
	cmd *exec.Cmd
	uri string
	log string // path
}

// startGateway runs `frazil up` and waits until it is ready.
func startGateway(ctx context.Context, binary, broker, dir string) (*gateway, error) {
	rest, err := freePort()
	if err != nil {
		return nil, err
	}
	s3, err := freePort()
	if err != nil {
		return nil, err
	}
	g := &gateway{uri: "http://" + rest, log: filepath.Join(dir, "frazil.log")}
	logFile, err := os.Create(g.log)
	if err != nil {
		return nil, err
	}
	defer logFile.Close() //nolint:errcheck // the child has its own handle
	g.cmd = exec.CommandContext(ctx, binary, "up", "--brokers", broker, "--data-dir", filepath.Join(dir, "data"),
		"--rest-listen", rest, "--s3-listen", s3)
	g.cmd.Stdout, g.cmd.Stderr = logFile, logFile
	if err := g.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", binary, err)
	}
	if err := g.awaitReady(ctx); err != nil {
		return nil, errors.Join(err, g.stop())
	}
	return g, nil
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
			return fmt.Errorf("frazil did not get ready, see %s", g.log)
		case <-tick.C:
		}
	}
}

// stop asks for a graceful end and waits for it.
func (g *gateway) stop() error {
	if err := g.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := g.cmd.Wait(); err != nil {
		return fmt.Errorf("frazil did not end well, see %s: %w", g.log, err)
	}
	return nil
}

func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
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
