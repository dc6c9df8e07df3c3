package bench

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/freeport"
)

const (
	bulkTopic     = "bulk"
	bulkChunkLog2 = 15   // one closed chunk, one data file
	bulkPayload   = 3600 // characters of about 6.5 bits: the file is about 100 MB
	bulkRounds    = 7
)

// fetcher reads an object whole.
type fetcher struct {
	name string
	get  func(ctx context.Context) (*http.Request, error)
	pids []int
}

// benchEdge is part (b): a warm data file through the edge.
func benchEdge(t *testing.T, f *field, r *report) {
	r.part("b", "bytes per second of a warm data file, whole, SigV4-signed GET over loopback")
	f.start(t)
	f.fill(t, bulkTopic, 1<<bulkChunkLog2, bulkRecords())
	more := fmt.Sprintf("tables: {%s: {chunk_log2: %d}}\n", bulkTopic, bulkChunkLog2)
	one := startGateway(t, setting{broker: f.broker, more: more})
	split := startSplit(t, setting{broker: f.broker, more: more})
	inOne, size := edgeFetcher(t, one, "in one process")
	inFour, _ := edgeFetcher(t, split, "in split mode")
	disk, kind := diskServer(t, inOne)
	r.printf("  data file of %.1f MB; beside %s, same bytes, from disk", float64(size)/1e6, kind)

	all := []*fetcher{disk, inOne, inFour}
	speeds, costs := map[string]Series{}, map[string]Series{}
	for round := range bulkRounds + 1 {
		for _, one := range all {
			speed, cost := one.measure(t, size)
			if round > 0 { // the first one warms
				speeds[one.name] = append(speeds[one.name], speed)
				costs[one.name] = append(costs[one.name], cost)
			}
		}
	}
	for _, one := range all {
		r.row(one.name, speeds[one.name], "MB/s")
		r.row("  processor time of the server", costs[one.name], "s/GB")
	}
	r.ratio("in one process / "+disk.name, speeds[inOne.name].Over(speeds[disk.name]), "", AtLeast(0.5))
	r.row("ratio in split mode / "+disk.name, speeds[inFour.name].Over(speeds[disk.name]), "(no target)")
}

// bulkRecords makes rows that hardly compress.
func bulkRecords() func(*kgo.Record) {
	random := rand.New(rand.NewPCG(3, 5))
	const letters = "!#$%&'()*+,-./0123456789:;<=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_`abcdefghijklmnopqrstuvwxyz{|}~"
	i := 0
	return func(rec *kgo.Record) {
		payload := make([]byte, bulkPayload)
		for j := range payload {
			payload[j] = letters[random.IntN(len(letters))]
		}
		rec.Key = fmt.Appendf(nil, `{"id":%d}`, i)
		rec.Value = fmt.Appendf(nil, `{"id":%d,"payload":%q}`, i, payload)
		i++
	}
}

// edgeFetcher reads the largest data file of the table.
func edgeFetcher(t *testing.T, g *gateway, name string) (*fetcher, int64) {
	t.Helper()
	g.await(t, bulkTopic)
	client := &readback.Client{REST: g.rest, Warehouse: "v2", Namespace: harness.Namespace, HTTP: http.DefaultClient}
	table, err := client.Load(t.Context(), harness.TableName(bulkTopic))
	if err != nil {
		t.Fatal(err)
	}
	files, err := table.Files(t.Context(), table.Metadata.CurrentSnapshot)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d data files, %v", len(files), err)
	}
	largest := files[0]
	for _, file := range files {
		if file.Size > largest.Size {
			largest = file
		}
	}
	out := &fetcher{name: name, get: signedGet(table, largest.Path, "")}
	for _, s := range g.services {
		out.pids = append(out.pids, s.cmd.Process.Pid)
	}
	return out, largest.Size
}

// signedGet makes requests for an object with the credentials that came with its table; rng is a Range header, or empty.
func signedGet(table *readback.Table, uri, rng string) func(context.Context) (*http.Request, error) {
	creds := aws.Credentials{AccessKeyID: table.Config["s3.access-key-id"], SecretAccessKey: table.Config["s3.secret-access-key"], SessionToken: table.Config["s3.session-token"]}
	empty := sha256.Sum256(nil)
	hash := hex.EncodeToString(empty[:])
	signer := v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true })
	url := strings.TrimSuffix(table.Config["s3.endpoint"], "/") + "/" + strings.TrimPrefix(uri, "s3://")
	return func(ctx context.Context) (*http.Request, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("X-Amz-Content-Sha256", hash)
		if rng != "" {
			req.Header.Set("Range", rng)
		}
		return req, signer.SignHTTP(ctx, creds, req, hash, "s3", "us-east-1", time.Now())
	}
}

// diskServer serves the same bytes from disk with nginx, or with Go's file server where there is none.
func diskServer(t *testing.T, source *fetcher) (*fetcher, string) {
	t.Helper()
	dir, address := t.TempDir(), freeport.Address(t)
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	source.save(t, filepath.Join(root, "file.parquet"))
	name, kind := "nginx", "nginx"
	var pids []int
	if path, err := exec.LookPath("nginx"); err == nil {
		conf := fmt.Sprintf("daemon off; master_process off; worker_processes 1; pid %s/pid; error_log %[1]s/errors;\n"+
			"events {}\nhttp { access_log off; sendfile on; tcp_nopush on; client_body_temp_path %[1]s/body; proxy_temp_path %[1]s/proxy;\n"+
			"fastcgi_temp_path %[1]s/fastcgi; uwsgi_temp_path %[1]s/uwsgi; scgi_temp_path %[1]s/scgi;\n"+
			"server { listen %s; root %s; } }\n", dir, address, root)
		file := filepath.Join(dir, "nginx.conf")
		if err := os.WriteFile(file, []byte(conf), 0o644); err != nil {
			t.Fatal(err)
		}
		out, _ := exec.Command(path, "-v").CombinedOutput() //nolint:errcheck // the version is only shown
		kind = strings.TrimSpace(strings.TrimPrefix(string(out), "nginx version: "))
		pids = []int{startService(t, "nginx", dir, exec.Command(path, "-c", file, "-p", dir)).cmd.Process.Pid}
	} else {
		name, kind = "net/http", "net/http's file server (there is no nginx here)"
		cmd := roleCommand(t, role{Name: "files", Listen: address, Dir: root})
		pids = []int{startService(t, "files", dir, cmd).cmd.Process.Pid}
	}
	out := &fetcher{name: name, pids: pids, get: func(ctx context.Context) (*http.Request, error) {
		return http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/file.parquet", nil)
	}}
	harness.Eventually(t, name+" serves", func() error {
		_, err := out.read(t.Context(), io.Discard)
		return err
	})
	return out, kind
}

func (f *fetcher) save(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.read(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
}

// read fetches once and answers the number of bytes.
func (f *fetcher) read(ctx context.Context, to io.Writer) (n int64, err error) {
	req, err := f.get(ctx)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, resp.Body.Close()) }()
	if resp.StatusCode != http.StatusOK {
		text, err := io.ReadAll(resp.Body)
		return 0, errors.Join(fmt.Errorf("%s: status %d: %s", f.name, resp.StatusCode, text), err)
	}
	// Neither side's own shortcuts: what is read goes through one large buffer.
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{resp.Body}, make([]byte, 1<<20))
}

// measure fetches once and answers MB/s, and seconds of the server's processor time per GB.
func (f *fetcher) measure(t *testing.T, size int64) (speed, cost float64) {
	t.Helper()
	before, began := f.cpu(t), time.Now()
	n, err := f.read(t.Context(), io.Discard)
	took := time.Since(began)
	if err != nil || n != size {
		t.Fatalf("%s: %d of %d bytes, %v", f.name, n, size, err)
	}
	return float64(n) / 1e6 / took.Seconds(), (f.cpu(t) - before).Seconds() / float64(n) * 1e9
}

func (f *fetcher) cpu(t *testing.T) time.Duration {
	t.Helper()
	total := time.Duration(0)
	for _, pid := range f.pids {
		d, err := cpuOf(pid)
		if err != nil {
			t.Fatal(err)
		}
		total += d
	}
	return total
}
