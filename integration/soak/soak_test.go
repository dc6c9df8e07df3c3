package soak

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/history"
	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/telemetry"
	"github.com/frazil-io/frazil/services/app"
)

var (
	minutes = flag.Float64("soak.minutes", 0, "run random programs for so long; 0: one over each kind of store, always the same")
	seed    = flag.Uint64("soak.seed", 0, "run only the program of this seed")
	file    = flag.String("soak.case", "", "run only the program in this file")
	store   = flag.String("soak.store", "", "run only over this kind of store: embedded, redis or memory")
	length  = flag.Int("soak.steps", 40, "steps of a program")
	tries   = flag.Int("soak.shrink", 40, "how many programs may be run to shrink one that fails")
)

// childFile is the variable that makes the test binary the product: its value is the configuration file.
const childFile = "SOAK_CHILD"

func TestMain(m *testing.M) {
	file := os.Getenv(childFile)
	if file == "" {
		os.Exit(m.Run())
	}
	if err := product(file); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// product is the product as `frazil up` runs it, with a retention that no operator may choose: snapshots come and go
// within a program.
func product(file string) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	c := app.Default()
	if err := config.Load(file, nil, &c); err != nil {
		return err
	}
	c.Credentials.Key = config.NewSecret(history.CredentialsKey) // a file that was shown has no secrets
	tel, err := telemetry.New(ctx, c.Telemetry, "frazil", "soak", os.Stderr)
	if err != nil {
		return err
	}
	return errors.Join(app.Run(ctx, c, app.TargetAll, tel), tel.Shutdown(context.WithoutCancel(ctx)))
}

func TestSoak(t *testing.T) {
	s := &soak{t: t, total: history.NewReport(), stores: stores(t)}
	defer func() { t.Logf("soak: %s", s.total) }()
	if *minutes > 0 || *file != "" || *seed != 0 {
		s.open = opener(t, otherEncoder(t))
	} else {
		s.open = opener(t, "")
	}
	switch {
	case *file != "":
		p, err := history.Read(*file)
		if err != nil {
			t.Fatal(err)
		}
		s.check(p, *file)
	case *seed != 0:
		s.seed(*seed)
	default:
		end := time.Now().Add(time.Duration(*minutes * float64(time.Minute)))
		for i := 0; (*minutes > 0 && time.Now().Before(end) || *minutes == 0 && i < len(s.stores)) && !t.Failed(); i++ {
			// Seeds take the stores in turn.
			n := uint64(i)
			if *minutes > 0 {
				n = rand.Uint64()/uint64(len(s.stores))*uint64(len(s.stores)) + uint64(i%len(s.stores))
			}
			s.seed(n)
		}
	}
}

// stores are the kinds of state that can be used on this machine.
func stores(t *testing.T) []string {
	if *store != "" {
		return []string{*store}
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Log("SKIPPED: no program over Redis, redis-server is not installed (Debian: apt-get install redis-server)")
		return []string{"embedded", "memory"}
	}
	return []string{"embedded", "redis", "memory"}
}

type soak struct {
	t      *testing.T
	open   history.Opener
	total  *history.Report
	stores []string
}

func (s *soak) seed(seed uint64) {
	s.t.Helper()
	p := history.Generate(seed, *length).With("store", s.stores[seed%uint64(len(s.stores))])
	s.check(p, fmt.Sprintf("soak.seed %d", seed))
}

func (s *soak) check(p history.Program, name string) {
	s.t.Helper()
	s.t.Logf("%s over %s", name, p.Text("store"))
	if err := history.Check(s.t.Context(), p, s.open, s.total, *tries); err != nil {
		s.t.Errorf("%s (run it again with -soak.case=FILE): %v", name, err)
	}
}

// TestCases runs the programs that failed once.
func TestCases(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			p, err := history.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			s := &soak{t: t, open: opener(t, ""), total: history.NewReport()}
			s.check(p, name)
		})
	}
}

// otherEncoder builds this test anew with an encoder that makes no dictionary of more than one value: equal rows, other
// bytes and another encoding id, as an upgrade makes them.
func otherEncoder(t *testing.T) string {
	t.Helper()
	const source, was, is = "../../libs/parquetio/doc.go", "dictDistinct = 1 << 15", "dictDistinct = 1"
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), was) {
		t.Fatalf("%s does not have %q any more: choose another constant that decides bytes", source, was)
	}
	dir := t.TempDir()
	place, err := filepath.Abs(source)
	if err != nil {
		t.Fatal(err)
	}
	changed, overlay, out := filepath.Join(dir, "doc.go"), filepath.Join(dir, "overlay.json"), filepath.Join(dir, "other.test")
	table, err := json.Marshal(map[string]any{"Replace": map[string]string{place: changed}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{changed: strings.Replace(string(text), was, is, 1), overlay: string(table)} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if msg, err := exec.Command("go", "test", "-c", "-tags", "invariant", "-overlay", overlay, "-o", out, ".").CombinedOutput(); err != nil {
		t.Fatalf("build with another encoder: %v\n%s", err, msg)
	}
	return out
}
