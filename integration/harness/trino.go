package harness

import (
	"archive/zip"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/frazil-io/frazil/libs/freeport"
)

var (
	//go:embed trino/server.xml
	trinoServerPOM string
	//go:embed trino/iceberg.xml
	trinoIcebergPOM string
)

const (
	trinoVersion = "483"
	trinoJava    = 25 // the oldest that it runs on
)

const trinoConfig = `coordinator=true
node-scheduler.include-coordinator=true
http-server.http.port=%s
discovery.uri=http://%s
catalog.management=static
`

const trinoCatalog = `connector.name=iceberg
iceberg.catalog.type=rest
iceberg.rest-catalog.uri=%s
iceberg.rest-catalog.warehouse=%s
fs.native-s3.enabled=true
s3.endpoint=%s
s3.region=us-east-1
s3.path-style-access=true
`

// startTrino starts a server that knows the catalogs by their names, and answers its port. The end of the test stops it.
func startTrino(t testing.TB, catalogs map[string]Catalog) string {
	t.Helper()
	binary := newJava(t, trinoJava)
	server, iceberg := jars(t, "trino", trinoServerPOM, true), jars(t, "trino-iceberg", trinoIcebergPOM, true)
	home, address := t.TempDir(), freeport.Address(t)
	err := writeFiles(home, map[string]string{
		"etc/config.properties": fmt.Sprintf(trinoConfig, port(t, address), address),
	})
	for name, c := range catalogs {
		conf := fmt.Sprintf(trinoCatalog, c.URI, c.Warehouse, c.S3)
		if c.Properties == nil {
			conf += "iceberg.rest-catalog.vended-credentials-enabled=true\n"
		} else {
			conf += fmt.Sprintf("s3.aws-access-key=%s\ns3.aws-secret-key=%s\n", c.Properties["s3.access-key-id"], c.Properties["s3.secret-access-key"])
		}
		if c.Token != "" {
			conf += "iceberg.rest-catalog.security=OAUTH2\niceberg.rest-catalog.oauth2.token=" + c.Token + "\n"
		}
		if err == nil {
			err = writeFiles(home, map[string]string{"etc/catalog/" + name + ".properties": conf})
		}
	}
	if err == nil {
		err = plugin(filepath.Join(home, "plugin", "iceberg"), iceberg)
	}
	if err != nil {
		t.Fatalf("prepare Trino: %v", err)
	}
	cmd := java(binary, "2g", "-Djdk.attach.allowAttachSelf=true", "--sun-misc-unsafe-memory-access=allow", "--enable-native-access=ALL-UNNAMED",
		"--add-modules=jdk.incubator.vector", "-Dnode.environment=test", "-Dnode.id=frazil", "-Dconfig=etc/config.properties",
		"-Dnode.data-dir="+filepath.Join(home, "data"), "-cp", filepath.Join(server, "*"),
		filepath.Join(Root(t), "integration", "engines", "Trino.java"), trinoVersion)
	cmd.Dir = home
	p := start(t, "trino", home, cmd)
	Eventually(t, "Trino has started", func() error {
		if err := p.running(); err != nil {
			t.Fatal(err)
		}
		return started(address)
	})
	return port(t, address)
}

// plugin makes a plugin's folder out of the published jars, and one more that says which class is the plugin: the
// release's own archive has it, the jars have not.
func plugin(dir, jars string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	all, err := filepath.Glob(filepath.Join(jars, "*.jar"))
	if err != nil || len(all) == 0 {
		return fmt.Errorf("no jars in %s: %w", jars, err)
	}
	for _, jar := range all {
		if err := os.Symlink(jar, filepath.Join(dir, filepath.Base(jar))); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "service.jar"))
	if err != nil {
		return err
	}
	z := zip.NewWriter(f)
	w, err := z.Create("META-INF/services/io.trino.spi.Plugin")
	if err == nil {
		_, err = w.Write([]byte("io.trino.plugin.iceberg.IcebergPlugin\n"))
	}
	if err == nil {
		err = z.Close()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// writeFiles writes files below a folder, by name.
func writeFiles(dir string, files map[string]string) error {
	for name, text := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// started is nil once a Trino server takes queries.
func started(address string) error {
	resp, err := http.Get("http://" + address + "/v1/info")
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	info := struct{ Starting bool }{true}
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return err
	}
	if info.Starting {
		return errors.New("it is starting")
	}
	return nil
}
