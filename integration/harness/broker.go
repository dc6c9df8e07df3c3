package harness

import (
	"bytes"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"text/template"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/frazil-io/frazil/libs/freeport"
)

var (
	//go:embed kafka/pom.xml
	kafkaPOM string
	//go:embed kafka/server.properties.tmpl
	kafkaProperties string
)

// Broker is a Kafka that tests command.
type Broker interface {
	// Addr is host:port of a broker that asks for no credentials.
	Addr() string
	// Stop takes the broker away and keeps what it holds.
	Stop(t testing.TB)
	// Start brings it back at the same address.
	Start(t testing.TB)
}

// StartBroker starts a real broker in the full set and an in-process one otherwise.
func StartBroker(t testing.TB) Broker {
	t.Helper()
	if Scale(t) == Full {
		return StartKafka(t)
	}
	return StartFake(t)
}

// Kafka is an Apache Kafka broker of the version that the pom names, in a process of its own.
type Kafka struct {
	addr, sasl string
	dir, libs  string
	process    *process
}

// The users of the listener that asks for credentials: SASL mechanism, name, password.
const (
	ScramUser, ScramPassword = "scram", "scram-password" // SCRAM-SHA-512
	PlainUser, PlainPassword = "plain", "plain-password" // PLAIN
)

// StartKafka installs, formats and starts a broker. Its data goes when the test ends.
func StartKafka(t testing.TB) *Kafka {
	t.Helper()
	k := &Kafka{libs: jars(t, "kafka", kafkaPOM, true), dir: t.TempDir(), addr: freeport.Address(t), sasl: freeport.Address(t)}
	var conf bytes.Buffer
	err := template.Must(template.New("").Parse(kafkaProperties)).Execute(&conf, map[string]string{
		"Port": port(t, k.addr), "SASL": port(t, k.sasl), "Controller": port(t, freeport.Address(t)), "Data": filepath.Join(k.dir, "data"),
	})
	if err == nil {
		err = os.WriteFile(k.properties(), conf.Bytes(), 0o644)
	}
	if err == nil {
		err = command("java", "-cp", filepath.Join(k.libs, "*"), "kafka.tools.StorageTool", "format", "-t", "ZnJhemlsLWludGVncmF0aQ",
			"-c", k.properties(), "-S", fmt.Sprintf("SCRAM-SHA-512=[name=%s,password=%s]", ScramUser, ScramPassword))
	}
	if err != nil {
		t.Fatalf("prepare broker: %v", err)
	}
	k.Start(t)
	return k
}

func (k *Kafka) properties() string { return filepath.Join(k.dir, "server.properties") }

// Addr implements Broker.
func (k *Kafka) Addr() string { return k.addr }

// PID is the process of the broker, for those who measure it.
func (k *Kafka) PID() int { return k.process.cmd.Process.Pid }

// SASLAddr is host:port of the listener that asks for credentials.
func (k *Kafka) SASLAddr() string { return k.sasl }

// Start implements Broker.
func (k *Kafka) Start(t testing.TB) {
	t.Helper()
	k.process = start(t, "kafka", k.dir, exec.Command("java", "-Xms64m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Djava.net.preferIPv4Stack=true",
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", filepath.Join(k.libs, "*"), "kafka.Kafka", k.properties()))
	awaitBroker(t, k.addr, k.process.running)
}

// Stop implements Broker.
func (k *Kafka) Stop(t testing.TB) {
	t.Helper()
	// The JVM answers SIGTERM with 143 even when it ends in good order.
	_ = k.process.stop(t)
}

// fakeBroker is kfake, which keeps its logs in a folder and can so be stopped and started again.
type fakeBroker struct {
	addr, dir string
	cluster   *kfake.Cluster
}

// StartFake starts a broker in this process.
func StartFake(t testing.TB) Broker {
	t.Helper()
	f := &fakeBroker{addr: freeport.Address(t), dir: t.TempDir()}
	f.Start(t)
	t.Cleanup(func() { f.Stop(t) })
	return f
}

// Addr implements Broker.
func (f *fakeBroker) Addr() string { return f.addr }

// Start implements Broker.
func (f *fakeBroker) Start(t testing.TB) {
	t.Helper()
	var number int
	if _, err := fmt.Sscan(port(t, f.addr), &number); err != nil {
		t.Fatal(err)
	}
	cluster, err := kfake.NewCluster(kfake.Ports(number), kfake.DataDir(f.dir), kfake.SyncWrites(), kfake.ClusterID("frazil-fake"))
	if err != nil {
		t.Fatalf("start in-process broker: %v", err)
	}
	f.cluster = cluster
	awaitBroker(t, f.addr, func() error { return nil })
}

// Stop implements Broker.
func (f *fakeBroker) Stop(testing.TB) {
	if f.cluster != nil {
		f.cluster.Close()
		f.cluster = nil
	}
}
