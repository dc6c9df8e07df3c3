package harness

import (
	_ "embed"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed flink/pom.xml
var flinkPOM string

// flink is the command that asks Flink: a program that the JVM compiles as it starts.
func flink(t testing.TB) *exec.Cmd {
	t.Helper()
	libs := jars(t, "flink", flinkPOM, true)
	Need(t, "javac") // a JVM without compiler does not take a source
	return java("java", "1500m", "-Daws.region=us-east-1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED",
		"-cp", filepath.Join(libs, "*"), filepath.Join(Root(t), "integration", "engines", "Flink.java"))
}
