package harness

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Image is an image with one container, both in a folder of the test's. Its processes use the machine's network.
type Image struct {
	storage   []string
	container string
	dir       string
}

// BuildImage builds an image with buildah from a folder and a Dockerfile that needs no other image. The test is skipped
// without buildah, and without root: the isolation that needs no container engine is a chroot.
func BuildImage(t testing.TB, folder, dockerfile string) *Image {
	t.Helper()
	Need(t, "buildah")
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED: buildah needs root for a chroot")
	}
	dir := t.TempDir()
	i := &Image{storage: []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "storage"), "--runroot", filepath.Join(dir, "run")}, dir: dir}
	i.buildah(t, "bud", "--quiet", "--isolation", "chroot", "-f", dockerfile, "-t", "frazil-under-test", folder)
	i.container = i.buildah(t, "from", "frazil-under-test")
	t.Cleanup(func() { i.buildah(t, "rm", i.container) })
	return i
}

// Files lists all files of the image.
func (i *Image) Files(t testing.TB) []string {
	t.Helper()
	root := i.buildah(t, "mount", i.container)
	defer i.buildah(t, "umount", i.container)
	var files []string
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, strings.TrimPrefix(path, root))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Entrypoint is what the image runs.
func (i *Image) Entrypoint(t testing.TB) string {
	t.Helper()
	return i.buildah(t, "inspect", "--format", "{{.OCIv1.Config.Entrypoint}}", i.container)
}

// Run runs a command in the container to its end and answers what it prints.
func (i *Image) Run(t testing.TB, command ...string) string {
	t.Helper()
	return i.buildah(t, i.run(command)...)
}

func (i *Image) run(command []string) []string {
	return append([]string{"run", "--isolation", "chroot", i.container, "--"}, command...)
}

func (i *Image) buildah(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("buildah", slices.Concat(i.storage, args)...).Output()
	if err != nil {
		t.Fatalf("buildah %s: %v\n%s", args[0], err, tail(out))
	}
	return strings.TrimSpace(string(out))
}

// Contained is a process in a container.
type Contained struct{ process *process }

// Start starts a command in the container. The end of the test kills it.
func (i *Image) Start(t testing.TB, command ...string) *Contained {
	t.Helper()
	c := &Contained{start(t, "contained", i.dir, exec.Command("buildah", slices.Concat(i.storage, i.run(command))...))}
	t.Cleanup(func() {
		if c.Running() == nil {
			c.signal(t, syscall.SIGKILL)
		}
	})
	return c
}

// Running is nil while the process runs, and otherwise says what it printed last.
func (c *Contained) Running() error { return c.process.running() }

// Stop asks the process to end and answers how it ended.
func (c *Contained) Stop(t testing.TB) error {
	t.Helper()
	c.signal(t, syscall.SIGTERM)
	select {
	case <-c.process.done:
		return c.process.err
	case <-time.After(patience):
		t.Fatalf("the process did not end within %s\n%s", patience, c.process.tail())
		return nil
	}
}

// signal reaches the process itself, which is the last of a chain of children: buildah does not pass signals on.
func (c *Contained) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	pid := c.process.cmd.Process.Pid
	for next := child(pid); next != 0; next = child(pid) {
		pid = next
	}
	// It may have ended already.
	_ = syscall.Kill(pid, s)
}

// child is a child of a process, or 0.
func child(pid int) int {
	threads, err := filepath.Glob(filepath.Join("/proc", strconv.Itoa(pid), "task", "*", "children"))
	if err != nil {
		return 0
	}
	for _, file := range threads {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // the thread has ended
		}
		if children := strings.Fields(string(text)); len(children) > 0 {
			next, _ := strconv.Atoi(children[0]) // 0 for what is no number
			return next
		}
	}
	return 0
}
