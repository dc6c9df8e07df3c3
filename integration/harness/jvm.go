package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

// jvmFlags are those of every JVM that the tests start: small, quick to start, on loopback's IPv4.
var jvmFlags = []string{"-Xms64m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true",
	"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"}

// java is a JVM's command line.
func java(binary, heap string, args ...string) *exec.Cmd {
	all := append([]string{"-Xmx" + heap}, jvmFlags...)
	return exec.Command(binary, append(all, args...)...)
}

var javaVersion = regexp.MustCompile(`version "(\d+)`)

// newJava is a java of at least a release: of JAVA_HOME, of the path, or of those that Debian installs side by side.
// Without one the test is skipped.
func newJava(t testing.TB, release int) string {
	t.Helper()
	candidates, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	if err != nil {
		t.Fatal(err)
	}
	candidates = append([]string{filepath.Join(os.Getenv("JAVA_HOME"), "bin", "java"), "java"}, candidates...)
	for _, binary := range candidates {
		printed, err := exec.Command(binary, "-version").CombinedOutput()
		if err != nil {
			continue // not there, or not a JVM of this machine
		}
		found := javaVersion.FindSubmatch(printed)
		if found == nil {
			continue
		}
		if major, err := strconv.Atoi(string(found[1])); err == nil && major >= release {
			return binary
		}
	}
	t.Skipf("SKIPPED: no Java %d or later in JAVA_HOME, PATH or /usr/lib/jvm", release)
	return ""
}
