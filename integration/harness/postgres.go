package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/freeport"
)

// Postgres is a PostgreSQL server with logical decoding. Nobody needs a password.
type Postgres struct {
	bin, dir, addr string
	process        *process
}

// PostgresUser owns the server; on Debian it is also the account that may run it.
const PostgresUser = "postgres"

// StartPostgres makes and starts a server from the machine's PostgreSQL. Its data goes when the test ends. The test is
// skipped without a PostgreSQL, and as root without the account of Debian's package: the server refuses to run as root.
func StartPostgres(t testing.TB) *Postgres {
	t.Helper()
	p := &Postgres{bin: postgresBinaries(t), addr: freeport.Address(t)}
	// Not the test's own folder, which only this user may enter.
	dir, err := os.MkdirTemp("", "frazil-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("remove the database: %v", err)
		}
	})
	p.dir = dir
	if os.Geteuid() == 0 {
		giveAway(t, dir)
	}
	data := filepath.Join(dir, "data")
	initdb := p.command("initdb", "-D", data, "-U", PostgresUser, "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
	if out, err := initdb.CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, tail(out))
	}
	p.process = start(t, "postgres", t.TempDir(), p.command("postgres", "-D", data, "-p", p.Port(t), "-c", "listen_addresses=127.0.0.1",
		"-c", "unix_socket_directories=", "-c", "wal_level=logical", "-c", "fsync=off", "-c", "timezone=UTC", "-c", "log_min_messages=warning"))
	t.Cleanup(func() { p.stop(t) })
	Eventually(t, "database answers", func() error {
		if err := p.process.running(); err != nil {
			t.Fatal(err)
		}
		_, err := p.psql(maintenance, "-c", "SELECT 1")
		return err
	})
	return p
}

// maintenance is the database that every server has.
const maintenance = "postgres"

// Create makes a database and runs scripts in it.
func (p *Postgres) Create(t testing.TB, database string, files ...string) {
	t.Helper()
	p.run(t, maintenance, "-c", "CREATE DATABASE "+database)
	for _, file := range files {
		p.File(t, database, file)
	}
}

// Port is the port on 127.0.0.1.
func (p *Postgres) Port(t testing.TB) string { return port(t, p.addr) }

// File runs a script in a database; its first error fails the test.
func (p *Postgres) File(t testing.TB, database, file string) {
	t.Helper()
	p.run(t, database, "-f", file)
}

// Query answers the rows of a statement, their columns separated by |.
func (p *Postgres) Query(t testing.TB, database, sql string) []string {
	t.Helper()
	out := p.run(t, database, "-c", sql)
	return slices.DeleteFunc(strings.Split(out, "\n"), func(s string) bool { return s == "" })
}

func (p *Postgres) run(t testing.TB, database string, args ...string) string {
	t.Helper()
	out, err := p.psql(database, args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (p *Postgres) psql(database string, args ...string) (string, error) {
	host, number, _ := strings.Cut(p.addr, ":")
	cmd := exec.Command(filepath.Join(p.bin, "psql"), append([]string{"-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1",
		"-h", host, "-p", number, "-U", PostgresUser, "-d", database}, args...)...)
	cmd.Env = append(os.Environ(), "PGCLIENTENCODING=UTF8", "PGTZ=UTC")
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("psql: %w\n%s", err, tail(errs.Bytes()))
	}
	return out.String(), nil
}

// stop ends the server in good order, though clients are connected: killed, it would leave its shared memory behind.
func (p *Postgres) stop(t testing.TB) {
	t.Helper()
	// The server may have ended already.
	_ = p.process.cmd.Process.Signal(os.Interrupt)
	select {
	case <-p.process.done:
	case <-time.After(patience):
		t.Errorf("postgres did not end within %s", patience)
	}
}

// command is one of the server's programs, run as the account that may run it. The process keeps its id.
func (p *Postgres) command(name string, args ...string) *exec.Cmd {
	line := append([]string{filepath.Join(p.bin, name)}, args...)
	if os.Geteuid() == 0 {
		line = append([]string{"setpriv", "--reuid", PostgresUser, "--regid", PostgresUser, "--clear-groups", "--pdeathsig", "INT"}, line...)
	}
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Dir = p.dir
	return cmd
}

// postgresBinaries is the folder of the newest PostgreSQL of the machine.
func postgresBinaries(t testing.TB) string {
	t.Helper()
	// Debian keeps each version's programs in a folder that is not on the path.
	found, err := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if err != nil {
		t.Fatal(err)
	}
	release := func(file string) int {
		n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(file)))) // 0 for what is no number
		return n
	}
	if len(found) > 0 {
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return release(a) - release(b) }))
	}
	Need(t, "initdb", "postgres", "psql")
	onPath, err := exec.LookPath("initdb")
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(onPath)
}

// giveAway makes the database's account the owner of a folder.
func giveAway(t testing.TB, dir string) {
	t.Helper()
	Need(t, "setpriv")
	account, err := user.Lookup(PostgresUser)
	if err != nil {
		t.Skipf("SKIPPED: PostgreSQL does not run as root, and there is no user %s", PostgresUser)
	}
	uid, uidErr := strconv.Atoi(account.Uid)
	gid, gidErr := strconv.Atoi(account.Gid)
	if uidErr != nil || gidErr != nil {
		t.Fatalf("user %s is %s:%s", PostgresUser, account.Uid, account.Gid)
	}
	if err := os.Chown(dir, uid, gid); err != nil {
		t.Fatal(err)
	}
}
