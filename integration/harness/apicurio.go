package harness

import (
	_ "embed"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/frazil-io/frazil/libs/freeport"
)

//go:embed apicurio/pom.xml
var apicurioPOM string

// Apicurio is an Apicurio Registry of the version that the pom names. It keeps what it holds in memory.
type Apicurio struct{ url string }

// StartApicurio installs and starts a registry.
func StartApicurio(t testing.TB) *Apicurio {
	t.Helper()
	java21 := newJava(t, 21)
	dir, addr := apicurio(t), freeport.Address(t)
	a := &Apicurio{url: "http://" + addr}
	p := start(t, "registry", t.TempDir(), java(java21, "384m", "-Dquarkus.http.host=127.0.0.1", "-Dquarkus.http.port="+port(t, addr),
		"-Dquarkus.management.host=127.0.0.1", "-Dquarkus.management.port="+port(t, freeport.Address(t)),
		"-Dquarkus.log.level=WARN", `-Dquarkus.log.category."io.apicurio".level=WARN`, `-Dquarkus.log.category."apicurio-registry.access".level=WARN`,
		"-jar", filepath.Join(dir, "quarkus-run.jar")))
	Eventually(t, "registry answers", func() error {
		if err := p.running(); err != nil {
			t.Fatal(err)
		}
		return answers(a.Confluent() + "/subjects")
	})
	return a
}

// Confluent is the base of the API that is compatible with Confluent's registry.
func (a *Apicurio) Confluent() string { return a.url + "/apis/ccompat/v7" }

// Native is the base of the registry's own API, as its converters of the 2.x line speak it.
func (a *Apicurio) Native() string { return a.url + "/apis/registry/v2" }

// apicurio unpacks the application into the cache.
func apicurio(t testing.TB) string {
	t.Helper()
	Need(t, "mvn", "tar")
	dir := Cache(t, "apicurio")
	app := filepath.Join(dir, "app")
	install(t, dir, apicurioPOM, func() error {
		file := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(file, []byte(apicurioPOM), 0o644); err != nil {
			return err
		}
		if err := os.RemoveAll(app); err != nil {
			return err
		}
		if err := os.Mkdir(app, 0o755); err != nil {
			return err
		}
		if err := command("mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies", "-DoutputDirectory="+dir); err != nil {
			return err
		}
		archives, err := filepath.Glob(filepath.Join(dir, "*.tar.gz"))
		if err != nil || len(archives) != 1 {
			return fmt.Errorf("%d archives: %w", len(archives), err)
		}
		if err := command("tar", "-xzf", archives[0], "-C", app); err != nil {
			return err
		}
		return os.Remove(archives[0])
	})
	return app
}

// answers is nil once a URL answers 200.
func answers(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", url, resp.StatusCode)
	}
	return nil
}
