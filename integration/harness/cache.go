// Package harness starts the real components that the integration tests need, without a container engine: an Apache
// Kafka broker from its Maven jars, Frazil's binary, a schema registry, and the engines from Python packages. What has
// to be installed goes into a cache folder once. Everything that is started is stopped, by its own process id, when
// the test ends.
package harness

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// CacheVariable names the folder that holds what was installed; .cache in the repository if it is not set.
const CacheVariable = "FRAZIL_TEST_CACHE"

// Root is the repository.
func Root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "integration", "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("the working directory is not inside the repository")
		}
	}
}

// Cache is a folder of the cache.
func Cache(t testing.TB, name string) string {
	t.Helper()
	root := os.Getenv(CacheVariable)
	if root == "" {
		root = filepath.Join(Root(t), ".cache")
	}
	dir := filepath.Join(root, name)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// Need skips the test, naming the first tool that is missing.
func Need(t testing.TB, tools ...string) {
	t.Helper()
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("SKIPPED: %s is not installed", tool)
		}
	}
}

// install runs an installation into a cache folder unless the same one is there. what is all that determines the
// result. Test binaries that run at once wait for each other.
func install(t testing.TB, dir, what string, run func() error) {
	t.Helper()
	lock, err := os.Create(filepath.Join(dir, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close() //nolint:errcheck // nothing is written
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256([]byte(what))
	want, stamp := hex.EncodeToString(sum[:]), filepath.Join(dir, "installed")
	if got, err := os.ReadFile(stamp); err == nil && string(got) == want {
		return
	}
	t.Logf("installing into %s", dir)
	if err := run(); err != nil {
		t.Fatalf("install into %s: %v", dir, err)
	}
	if err := os.WriteFile(stamp, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// jars copies the artifacts of a pom, and what they depend on if deep, into a cache folder and answers it.
func jars(t testing.TB, name, pom string, deep bool) string {
	t.Helper()
	Need(t, "java", "mvn")
	dir := Cache(t, name)
	install(t, dir, pom, func() error {
		file := filepath.Join(dir, "pom.xml")
		if err := os.WriteFile(file, []byte(pom), 0o644); err != nil {
			return err
		}
		return command("mvn", "-q", "-B", "-f", file, "dependency:copy-dependencies", "-DincludeScope=runtime",
			fmt.Sprintf("-DexcludeTransitive=%t", !deep), "-DoutputDirectory="+filepath.Join(dir, "libs"))
	})
	return filepath.Join(dir, "libs")
}

// command runs a program to its end; the error holds what it printed last.
func command(name string, args ...string) error {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, tail(out))
	}
	return nil
}

// tail is the end of an output.
func tail(out []byte) string {
	const most = 4000
	if len(out) > most {
		out = out[len(out)-most:]
	}
	return string(out)
}
