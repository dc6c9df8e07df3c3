package image

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/integration/harness"
)

// TestTheDockerfileBuilds does by hand what the build stage of deploy/Dockerfile does, with this machine's Go in place of
// the base image: what it copies must be enough for the commands that it runs.
func TestTheDockerfileBuilds(t *testing.T) {
	harness.NeedFull(t, "the binary is built from a copy of the repository")
	root, dir := harness.Root(t), t.TempDir()
	src, out := filepath.Join(dir, "src"), filepath.Join(dir, "out")
	if err := os.Mkdir(src, 0o755); err != nil {
		t.Fatal(err)
	}
	// The stage's folders are in the root of its file system.
	here := strings.NewReplacer("/out/", out+"/", "/src", src)
	for _, line := range buildStage(t, filepath.Join(root, "deploy", "Dockerfile")) {
		instruction, rest, _ := strings.Cut(line, " ")
		switch instruction {
		case "FROM", "WORKDIR", "ARG":
		case "COPY":
			names := strings.Fields(rest)
			for _, pattern := range names[:len(names)-1] {
				found, err := filepath.Glob(filepath.Join(root, pattern))
				if err != nil || len(found) == 0 {
					t.Fatalf("%s: nothing is called %s: %v", line, pattern, err)
				}
				for _, from := range found {
					copyInto(t, from, filepath.Join(src, names[len(names)-1]), strings.HasSuffix(rest, "/"))
				}
			}
		case "RUN":
			cmd := exec.Command("sh", "-ec", here.Replace(mounts.ReplaceAllString(rest, "")))
			cmd.Dir = src
			cmd.Env = append(os.Environ(), "VERSION="+builtVersion, "GOWORK=", "GOFLAGS=")
			if printed, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", line, err, printed)
			}
		default:
			t.Fatalf("this test does not know the instruction %s", instruction)
		}
	}
	printed, err := exec.Command(filepath.Join(out, "frazil"), "version").Output()
	if err != nil || !strings.Contains(string(printed), "frazil "+builtVersion) {
		t.Errorf("version prints %q, %v", printed, err)
	}
	if info, err := os.Stat(filepath.Join(out, "data")); err != nil || !info.IsDir() {
		t.Errorf("the stage leaves no data folder: %v", err)
	}
}

// mounts are the caches of a RUN instruction.
var mounts = regexp.MustCompile(`--mount=\S+\s+`)

// buildStage are the instructions of the first stage, each on one line.
func buildStage(t *testing.T, file string) []string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stage []string
	continued := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if head, ok := strings.CutSuffix(line, `\`); ok {
			continued += head
			continue
		}
		line, continued = continued+line, ""
		if strings.HasPrefix(line, "FROM ") && len(stage) > 0 {
			return stage
		}
		stage = append(stage, line)
	}
	t.Fatalf("%s has no second stage", file)
	return nil
}

// copyInto copies a file or a folder without what .dockerignore keeps out of it. A file goes into a folder if its
// destination is one.
func copyInto(t *testing.T, from, to string, folder bool) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dest := filepath.Join(to, rel)
		if d.IsDir() {
			if d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return os.MkdirAll(dest, 0o755)
		}
		if rel == "." && folder {
			dest = filepath.Join(to, d.Name())
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Dir(dest), 0o755); err != nil {
			return err
		}
		return os.WriteFile(dest, content, 0o644)
	})
	if err != nil {
		t.Fatal(err)
	}
}
