package app

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/telemetry"
	"github.com/frazil-io/frazil/tools"
	"github.com/frazil-io/frazil/tools/command"
)

// Exit codes of the binary.
const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
	exitFound   = 3
)

// Main runs the command line and answers the exit code: 0 done, 1 failed, 2 called or configured wrongly, 3 a tool
// found what it was asked to object to. environ is in the form of os.Environ. It returns soon after ctx ends.
func Main(ctx context.Context, args, environ []string, std command.Streams) int {
	m := &mainline{environ: environ, std: std}
	if len(args) == 0 {
		m.usage(std.Err)
		return exitUsage
	}
	err := m.dispatch(ctx, args[0], args[1:])
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.Is(err, command.ErrUsage):
		m.printf(std.Err, "frazil: %v\n", err)
		return exitUsage
	case errors.Is(err, command.ErrFound):
		m.printf(std.Err, "frazil: %v\n", err)
		return exitFound
	}
	m.printf(std.Err, "frazil: %v\n", err)
	return exitFailure
}

type mainline struct {
	environ []string
	std     command.Streams
}

// printf writes to a stream of the process. A reader that has gone away is not our failure.
func (m *mainline) printf(w io.Writer, format string, args ...any) {
	fmt.Fprintf(w, format, args...) //nolint:errcheck // see above
}

func (m *mainline) commands() []command.Command {
	own := []command.Command{
		{Name: "up", Summary: "run everything in this process", Run: m.up},
		{Name: "serve", Summary: "run one service, or all of them, from a configuration file", Run: m.serve},
		{Name: "config", Summary: "show: print the effective configuration; check: say whether a process would start with it; hash: what must be equal on all services", Run: m.config},
		{Name: "healthcheck", Summary: "ask a running process whether it is ready", Run: m.healthcheck},
		{Name: "version", Summary: "print the version", Run: m.version},
	}
	all := append(own, tools.Commands()...)
	slices.SortFunc(all, func(a, b command.Command) int { return strings.Compare(a.Name, b.Name) })
	return all
}

func (m *mainline) dispatch(ctx context.Context, name string, args []string) error {
	if name == "help" || name == "-h" || name == "--help" || name == "-help" {
		m.usage(m.std.Out)
		return nil
	}
	cmds := m.commands()
	known := make([]string, 0, len(cmds))
	for _, c := range cmds {
		if c.Name == name {
			return c.Run(ctx, args, m.std)
		}
		known = append(known, c.Name)
	}
	return fmt.Errorf("%w: unknown command %q: did you mean %s? `frazil help` lists all", command.ErrUsage, name, config.Nearest(name, known))
}

func (m *mainline) usage(w io.Writer) {
	m.printf(w, "Frazil serves CDC topics in Kafka as current-state Iceberg tables.\n\nusage: frazil COMMAND [flags]\n\n")
	for _, c := range m.commands() {
		m.printf(w, "  %-12s %s\n", c.Name, c.Summary)
	}
	m.printf(w, "\n`frazil COMMAND -h` explains a command. The smallest start: frazil up --brokers localhost:9092\n")
}

// flags makes a flag set that reports to the caller.
func (m *mainline) flags(name, about string) *flag.FlagSet {
	f := flag.NewFlagSet(name, flag.ContinueOnError)
	f.SetOutput(m.std.Err)
	f.Usage = func() {
		m.printf(m.std.Err, "usage: frazil %s\n\n%s\n\n", name, about)
		f.PrintDefaults()
	}
	return f
}

// parse refuses what is left over, too.
func parse(f *flag.FlagSet, args []string) error {
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	if f.NArg() > 0 {
		return fmt.Errorf("%w: %q is no flag of %s", command.ErrUsage, f.Arg(0), f.Name())
	}
	return nil
}

// upFlags are the overrides of `frazil up`; an empty one overrides nothing.
type upFlags struct {
	file, brokers, registry, dataDir, rest, s3, auth string
}

func (u *upFlags) register(f *flag.FlagSet) {
	f.StringVar(&u.file, "config", "", "YAML `FILE`; every key has a default (docs/CONFIG.md)")
	f.StringVar(&u.brokers, "brokers", "", "Kafka `HOST:PORT[,HOST:PORT...]` to begin with")
	f.StringVar(&u.registry, "registry", "", "`URL` of a Confluent-compatible schema registry")
	f.StringVar(&u.dataDir, "data-dir", "", "`DIR` for state and cache (default ./frazil-data)")
	f.StringVar(&u.rest, "rest-listen", "", "`HOST:PORT` of the Iceberg REST catalog (default 127.0.0.1:8181)")
	f.StringVar(&u.s3, "s3-listen", "", "`HOST:PORT` of the S3 endpoint (default 127.0.0.1:9000)")
	f.StringVar(&u.auth, "auth", "", "`none` (loopback only) or token (default: none on loopback without tokens, else token)")
}

func (u *upFlags) apply(c *Config) {
	set := func(to *string, from string) {
		if from != "" {
			*to = from
		}
	}
	if u.brokers != "" {
		c.Kafka.Brokers = strings.Split(u.brokers, ",")
	}
	set(&c.Registry.URL, u.registry)
	set(&c.DataDir, u.dataDir)
	set(&c.REST.Listen, u.rest)
	set(&c.S3.Listen, u.s3)
	set(&c.Auth.Mode, u.auth)
}

func (m *mainline) up(ctx context.Context, args []string, _ command.Streams) error {
	f := m.flags("up --brokers HOST:PORT [flags]", "Runs all services in this process with its state in --data-dir. Ready when GET /readyz on the REST port answers 200.")
	var u upFlags
	u.register(f)
	if err := parse(f, args); err != nil {
		return err
	}
	return m.run(ctx, u, TargetAll)
}

func (m *mainline) serve(ctx context.Context, args []string, _ command.Streams) error {
	f := m.flags("serve --target=TARGET --config FILE [flags]", "Runs one service, or all of them.")
	var u upFlags
	u.register(f)
	name := f.String("target", string(TargetAll), "all, edge, catalog, materializer or dedup")
	if err := parse(f, args); err != nil {
		return err
	}
	target, err := ParseTarget(*name)
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	return m.run(ctx, u, target)
}

// load reads file, environment and flags, in rising precedence.
func (m *mainline) load(u upFlags) (Config, error) {
	c := Default()
	if err := config.Load(u.file, m.environ, &c); err != nil {
		return c, fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	u.apply(&c)
	return c, nil
}

func (m *mainline) run(ctx context.Context, u upFlags, target Target) error {
	c, err := m.load(u)
	if err != nil {
		return err
	}
	warnings, err := c.Validate(target)
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	service := "frazil"
	if target != TargetAll {
		service += "-" + string(target)
	}
	tel, err := telemetry.New(ctx, c.Telemetry, service, Version(), m.std.Err)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		tel.Logger.Warn("configuration", "warning", w)
	}
	err = Run(ctx, c, target, tel)
	// The exporters get a moment of their own: ctx has ended by now.
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if flushed := tel.Shutdown(end); flushed != nil {
		tel.Logger.Warn("telemetry was not flushed", "err", flushed)
	}
	return err
}

func (m *mainline) config(_ context.Context, args []string, _ command.Streams) error {
	about := map[string]string{
		"show":  "Prints what a process started with the same flags and environment would use; secrets as ***.",
		"check": "Says what keeps a process started with the same flags and environment from starting, and what is unwise. Exits 2 if it would not start.",
		"hash":  "Prints the fingerprint of what must be equal on all services.",
	}
	if len(args) == 0 || about[args[0]] == "" {
		return fmt.Errorf("%w: frazil config show|check|hash [flags]", command.ErrUsage)
	}
	what := args[0]
	f := m.flags("config "+what+" [flags]", about[what])
	var u upFlags
	u.register(f)
	name := string(TargetAll)
	if what == "check" {
		f.StringVar(&name, "target", name, "the process: all, edge, catalog, materializer or dedup")
	}
	if err := parse(f, args[1:]); err != nil {
		return err
	}
	c, err := m.load(u)
	if err != nil {
		return err
	}
	switch what {
	case "hash":
		hash, err := c.Hash()
		if err != nil {
			return err
		}
		m.printf(m.std.Out, "%s\n", hash)
		return nil
	case "check":
		return m.check(c, name)
	}
	text, err := config.Show(c)
	if err != nil {
		return err
	}
	m.printf(m.std.Out, "%s", text)
	// Shown all the same: what is there is what has to be mended.
	if _, err := c.Validate(TargetAll); err != nil {
		m.printf(m.std.Err, "frazil up would not start with this configuration: %v\n", err)
	}
	return nil
}

// check validates as the start of a process does.
func (m *mainline) check(c Config, target string) error {
	t, err := ParseTarget(target)
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	warnings, err := c.Validate(t)
	for _, w := range warnings {
		m.printf(m.std.Err, "warning: %v\n", w)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	m.printf(m.std.Out, "the configuration is usable by target %s\n", t)
	return nil
}

func (m *mainline) healthcheck(ctx context.Context, args []string, _ command.Streams) error {
	f := m.flags("healthcheck [--url URL]", "Exits 0 if the process answers that it is ready. For images without a shell.")
	url := f.String("url", "http://127.0.0.1:8181/readyz", "the readiness `URL`: the REST port of an edge, port 7079 of the other services")
	if err := parse(f, args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, *url, nil)
	if err != nil {
		return fmt.Errorf("%w: %w", command.ErrUsage, err)
	}
	resp, err := (&http.Client{}).Do(req)
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("ask for readiness: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("not ready (%s): %s", resp.Status, strings.TrimSpace(string(body)))
	}
	return nil
}

func (m *mainline) version(_ context.Context, args []string, _ command.Streams) error {
	if err := parse(m.flags("version", "Prints version, Go version and platform."), args); err != nil {
		return err
	}
	m.printf(m.std.Out, "%s\n", versionLine())
	return nil
}
