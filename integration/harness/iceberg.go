package harness

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

//go:embed iceberg/pom.xml
var icebergPOM string

// Program is a Java program of the tests, with the jars that it needs.
type Program struct {
	main      string
	classpath string
	flags     []string
}

// IcebergProgram compiles the Java files of a folder against the Iceberg Java library. Its main class is Foreign.
func IcebergProgram(t testing.TB, dir string) *Program {
	t.Helper()
	return compile(t, dir, "Foreign", jars(t, "iceberg", icebergPOM, true))
}

// FlinkProgram compiles the Java files of a folder against Flink and its Iceberg sink.
func FlinkProgram(t testing.TB, dir, main string) *Program {
	t.Helper()
	p := compile(t, dir, main, jars(t, "flink", flinkPOM, true))
	p.flags = []string{"--add-opens=java.base/java.util=ALL-UNNAMED", "--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.nio=ALL-UNNAMED"}
	return p
}

func compile(t testing.TB, dir, main, libs string) *Program {
	t.Helper()
	Need(t, "javac")
	sources, err := filepath.Glob(filepath.Join(dir, "*.java"))
	if err != nil || len(sources) == 0 {
		t.Fatalf("no Java in %s: %v", dir, err)
	}
	classes := t.TempDir()
	if err := command("javac", append([]string{"-nowarn", "-proc:none", "-cp", filepath.Join(libs, "*"), "-d", classes}, sources...)...); err != nil {
		t.Fatal(err)
	}
	return &Program{main: main, classpath: classes + string(os.PathListSeparator) + filepath.Join(libs, "*")}
}

// Run gives the program a job and answers the values that it prints. It is safe to run it several times at once. The
// end of ctx kills the program.
func (p *Program) Run(ctx context.Context, job any) ([]json.RawMessage, error) {
	in, err := json.Marshal(job)
	if err != nil {
		return nil, err
	}
	cmd := java("java", "768m", append(p.flags, "-Daws.region="+lakeRegion, "-cp", p.classpath, p.main)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(in), &out, &errs
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Kill() }) // it may have ended just now
	err = cmd.Wait()
	stop()
	if err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", p.main, errors.Join(err, ctx.Err()), tail(errs.Bytes()))
	}
	var lines []json.RawMessage
	for dec := json.NewDecoder(&out); ; {
		var line json.RawMessage
		if err := dec.Decode(&line); errors.Is(err, io.EOF) {
			return lines, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s printed what is no JSON: %w", p.main, err)
		}
		lines = append(lines, line)
	}
}
