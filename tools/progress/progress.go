// Package progress is the command `frazil progress`: how far a table's history was read. It asks the REST catalog.
package progress

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/frazil-io/frazil/tools/command"
)

// Command answers the sub-command.
func Command() command.Command {
	return command.Command{Name: "progress", Summary: "show how far the history of a table was read", Run: run}
}

const about = `usage: frazil progress TABLE [--watch] [flags]

An eager table reads all of its topic before its first snapshot; a lazy one as far down as queries go. --watch follows
until nothing is being read for anybody: a bar with the rate and the time that is left.

`

const (
	// timeout of one request.
	timeout = 30 * time.Second
	// maxAnswer bounds what is read, bytes.
	maxAnswer = 64 << 20
)

type options struct {
	catalog, warehouse, namespace, tokenFile, format string
	watch                                            bool
	every                                            time.Duration
}

// report is what the catalog answers.
type report struct {
	Table      string `json:"table"`
	Topic      string `json:"topic"`
	StateEpoch string `json:"state-epoch"`
	Plan       string `json:"plan"`
	Partitions int    `json:"partitions"`
	Offsets    int64  `json:"offsets"`
	Read       int64  `json:"offsets-read"`
	Wanted     int64  `json:"offsets-wanted"`
	Walks      []walk `json:"walks"`
}

type walk struct {
	Partition int   `json:"partition"`
	Start     int64 `json:"start"`
	Frontier  int64 `json:"frontier"`
	End       int64 `json:"end"`
	Wanted    int64 `json:"wanted"`
}

func run(ctx context.Context, args []string, std command.Streams) error {
	var o options
	f := command.NewFlags("progress", about, std)
	f.StringVar(&o.catalog, "catalog", "http://127.0.0.1:8181", "`URL` of the REST catalog")
	f.StringVar(&o.warehouse, "warehouse", "v2", "`WAREHOUSE`, v2 or v3: the progress is the same in both")
	f.StringVar(&o.namespace, "namespace", "kafka", "`NAMESPACE` of the table")
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` with the bearer token; - is standard input")
	f.StringVar(&o.format, "format", "table", "`table` or json")
	f.BoolVar(&o.watch, "watch", false, "follow until nothing is being read")
	f.DurationVar(&o.every, "every", time.Second, "how often --watch looks")
	rest, err := command.Parse(f, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	case len(rest) != 1:
		f.Usage()
		return fmt.Errorf("%w: progress TABLE", command.ErrUsage)
	case o.format != "table" && o.format != "json":
		return fmt.Errorf("%w: --format is table or json, not %q", command.ErrUsage, o.format)
	case o.every <= 0:
		return fmt.Errorf("%w: --every must be above 0", command.ErrUsage)
	}
	token, err := readToken(o.tokenFile, std.In)
	if err != nil {
		return err
	}
	ask := func(ctx context.Context) (report, error) { return o.ask(ctx, token, rest[0]) }
	r, err := ask(ctx)
	if err != nil {
		return fmt.Errorf("progress of table %s: %w", rest[0], err)
	}
	if o.watch {
		return watch(ctx, std.Out, r, o.every, ask)
	}
	return show(std.Out, r, o.format)
}

func readToken(file string, in io.Reader) (string, error) {
	var raw []byte
	var err error
	switch file {
	case "":
		return "", nil
	case "-":
		raw, err = io.ReadAll(io.LimitReader(in, 1<<16))
	default:
		raw, err = os.ReadFile(file)
	}
	if err != nil {
		return "", fmt.Errorf("read the token: %w", err)
	}
	return strings.TrimSpace(string(raw)), nil
}

func (o options) ask(ctx context.Context, token, table string) (r report, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	at := strings.TrimRight(o.catalog, "/") + "/v1/" + url.PathEscape(o.warehouse) + "/namespaces/" + url.PathEscape(o.namespace) +
		"/tables/" + url.PathEscape(table) + "/progress"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return r, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := (&http.Client{}).Do(req)
	if err != nil {
		return r, err
	}
	defer func() {
		if cerr := res.Body.Close(); err == nil {
			err = cerr
		}
	}()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return r, err
	}
	if res.StatusCode != http.StatusOK {
		var refused struct {
			Error struct {
				Message string `json:"message"`
			} `json:"error"`
		}
		if json.Unmarshal(raw, &refused) != nil || refused.Error.Message == "" {
			return r, fmt.Errorf("the catalog answered %s", res.Status)
		}
		return r, fmt.Errorf("%s (%d)", refused.Error.Message, res.StatusCode)
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("the answer is no progress: %w", err)
	}
	return r, nil
}
