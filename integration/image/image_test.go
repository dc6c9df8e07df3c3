package image

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/freeport"
)

// TestTheImageServesATable builds the image from scratch, runs the gateway in it and reads a table.
func TestTheImageServesATable(t *testing.T) {
	harness.NeedFull(t, "an image is built and run")
	i := harness.BuildImage(t, buildContext(t), filepath.Join(harness.Root(t), "deploy", "Dockerfile.scratch"))
	if files := i.Files(t); !slices.Equal(files, []string{"/frazil"}) {
		t.Errorf("the image has the files %v, want the binary alone", files)
	}
	if entry := i.Entrypoint(t); entry != "[/frazil]" {
		t.Errorf("the image runs %s", entry)
	}
	if version := i.Run(t, "/frazil", "version"); !strings.Contains(version, "frazil "+builtVersion) {
		t.Errorf("version prints %q", version)
	}

	const topic, rows = "shop.orders", 3
	broker := harness.StartFake(t)
	admin := harness.NewAdmin(t, broker)
	admin.Create(t, topic, 1)
	for n := range rows {
		admin.Append(t, topic, 0, &kgo.Record{Key: fmt.Appendf(nil, `{"id":%d}`, n), Value: fmt.Appendf(nil, `{"id":%d,"item":"nut"}`, n)})
	}
	rest := freeport.Address(t)
	gateway := i.Start(t, "/frazil", "up", "--brokers", broker.Addr(), "--data-dir", "/data", "--rest-listen", rest, "--s3-listen", freeport.Address(t))
	url := "http://" + rest
	harness.Eventually(t, "the gateway is ready", func() error {
		if err := gateway.Running(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(url + "/readyz")
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("status %d", resp.StatusCode)
		}
		return nil
	})
	i.Run(t, "/frazil", "healthcheck", "--url", url+"/readyz") // as the health checks of docker-compose.yml do
	for _, warehouse := range []string{"v2", "v3"} {
		client := &readback.Client{REST: url, Warehouse: warehouse, Namespace: harness.Namespace, HTTP: http.DefaultClient}
		table, err := client.Load(t.Context(), harness.TableName(topic))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := table.Rows(t.Context(), 0); err != nil || len(got) != rows {
			t.Errorf("%s has %d rows, %v; want %d", warehouse, len(got), err, rows)
		}
	}
	if err := gateway.Stop(t); err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}

// builtVersion is what the binaries of these tests say they are.
const builtVersion = "v0.0.0-image-test"

// buildContext is a folder with the binary where the build of the image expects it, built as `make build` does.
func buildContext(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -X github.com/frazil-io/frazil/services/app.buildVersion="+builtVersion,
		"-o", filepath.Join(dir, "bin", "frazil"), "./services/cmd/frazil")
	cmd.Dir = harness.Root(t)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build frazil: %v\n%s", err, out)
	}
	return dir
}
