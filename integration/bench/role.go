package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

// roleVariable makes a process of the test binary measure one thing and end: each measurement has a heap of its own.
const roleVariable = "FRAZIL_BENCH_ROLE"

// role is what a process measures.
type role struct {
	Name    string `json:"name"`
	Format  format `json:"format,omitempty"`
	Broker  string `json:"broker,omitempty"`
	Topic   string `json:"topic,omitempty"`
	Events  int    `json:"events,omitempty"`
	Profile string `json:"profile,omitempty"` // folder, or empty
	Dir     string `json:"dir,omitempty"`     // scratch
	URL     string `json:"url,omitempty"`
	Listen  string `json:"listen,omitempty"`
	Repeat  int    `json:"repeat,omitempty"`
}

// measured is what came out.
type measured struct {
	Events int64   `json:"events"`
	Bytes  int64   `json:"bytes"` // of keys and values, or of what was encoded
	CPU    float64 `json:"cpu"`   // seconds of this process, user and system
	Wall   float64 `json:"wall"`  // seconds
	Allocs int64   `json:"allocs"`
	Peak   int64   `json:"peak,omitempty"` // bytes in memory at most, of those roles that say it
}

// PerEvent is CPU per event, microseconds.
func (m measured) PerEvent() float64 { return m.CPU / float64(m.Events) * 1e6 }

// PerSecond is events per second of CPU.
func (m measured) PerSecond() float64 { return float64(m.Events) / m.CPU }

// Played reports whether this process was started to play a role, and plays it. The result goes to out as one line of
// JSON.
func Played(ctx context.Context, out io.Writer) (bool, error) {
	text := os.Getenv(roleVariable)
	if text == "" {
		return false, nil
	}
	var r role
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return true, fmt.Errorf("%s: %w", roleVariable, err)
	}
	play, ok := map[string]func(context.Context, *role) (measured, error){
		"consume": consume, "fetch": fetch, "decode": decodeAlone, "encode": encodeAlone, "keys": keysAlone, "empty": serveEmpty,
		"files": serveFiles, "lookups": lookUp, "pebble": pebbleKeys, "probe": probeTable, "manifests": decodeManifests, "rowindex": fillIndex,
	}[r.Name]
	if !ok {
		return true, fmt.Errorf("unknown role %q", r.Name)
	}
	m, err := play(ctx, &r)
	if err != nil {
		return true, fmt.Errorf("%s: %w", r.Name, err)
	}
	return true, json.NewEncoder(out).Encode(m)
}

// measure runs the measured part of a role.
func (r *role) measure(do func(*measured) error) (m measured, err error) {
	runtime.GC()
	if r.Profile != "" {
		stop, err := profile(filepath.Join(r.Profile, fmt.Sprintf("%s-%s.pprof", r.Name, r.Format)))
		if err != nil {
			return m, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	cpu, began := ownCPU(), time.Now()
	err = do(&m)
	m.CPU, m.Wall = (ownCPU() - cpu).Seconds(), time.Since(began).Seconds()
	runtime.ReadMemStats(&after)
	m.Allocs = int64(after.Mallocs - before.Mallocs)
	return m, err
}

func profile(path string) (stop func() error, err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}
