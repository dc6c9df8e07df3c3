// Package inprocess runs the whole product inside a test, over a broker in the same process that speaks Kafka's
// protocol.
package inprocess

import (
	"net/http"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/freeport"
	"github.com/frazil-io/frazil/services/app"
)

// Frazil is the product and its broker. Both end with the test.
type Frazil struct {
	Config app.Config
	Broker *kfake.Cluster
	// Producer writes to the partition that a record names.
	Producer *kgo.Client
	// Clock that the product goes by; nil: the machine's.
	Clock func() time.Time

	t       *testing.T
	process *Process
}

// New starts a broker and configures the product to follow it as closely as it can. Start runs it.
func New(t *testing.T) *Frazil {
	t.Helper()
	f := &Frazil{t: t, process: &Process{}}
	var err error
	f.Broker, err = kfake.NewCluster(kfake.NumBrokers(1))
	f.must(err)
	t.Cleanup(f.Broker.Close)
	f.Producer = f.Client()
	f.Config = app.Default()
	f.Config.DataDir = t.TempDir()
	f.Config.Kafka.Brokers = f.Broker.ListenAddrs()
	f.Config.REST.Listen, f.Config.S3.Listen = freeport.Address(f.t), freeport.Address(f.t)
	f.Config.Freshness.OffsetsTTL, f.Config.Freshness.MinCutInterval = time.Millisecond, time.Millisecond
	f.Config.Freshness.TopicsTTL = time.Millisecond
	t.Cleanup(f.Stop)
	return f
}

// Client is another client of the broker, with the same partitioning.
func (f *Frazil) Client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	opts = append(opts, kgo.SeedBrokers(f.Broker.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	c, err := kgo.NewClient(opts...)
	f.must(err)
	f.t.Cleanup(c.Close)
	return c
}

// Start runs the product and waits until it is ready.
func (f *Frazil) Start() {
	f.t.Helper()
	f.process.Config, f.process.Clock = f.Config, f.Clock
	f.must(f.process.Start(f.t.Context()))
}

// Stop ends the product as SIGTERM does. Stopping what does not run is nothing.
func (f *Frazil) Stop() {
	f.t.Helper()
	if err := f.process.Stop(); err != nil {
		f.t.Errorf("the process ended with %v", err)
	}
}

// Until repeats try until it succeeds; the test fails after a minute.
func (f *Frazil) Until(what string, try func() error) {
	f.t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			f.t.Fatalf("%s: %v", what, err)
		case <-tick.C:
		}
	}
}

// Catalog is a reader of one warehouse.
func (f *Frazil) Catalog(warehouse string) *readback.Client {
	return &readback.Client{REST: "http://" + f.Config.REST.Listen, Warehouse: warehouse, Namespace: "kafka", HTTP: http.DefaultClient}
}

func (f *Frazil) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}
