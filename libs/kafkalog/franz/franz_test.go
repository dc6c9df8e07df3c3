package franz_test

import (
	"log/slog"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/frazil-io/frazil/libs/kafkalog/franz"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest/wire"
)

// fake starts a Kafka in this process.
func fake(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append(opts, kfake.NumBrokers(2), kfake.ClusterID("fake"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func commands(t *testing.T, c *kfake.Cluster) *wire.Cluster {
	t.Helper()
	w := wire.New(t, c.ListenAddrs())
	w.CompactNow = func(testing.TB) { c.Compact() }
	w.Stop = func(testing.TB) { c.Close() }
	return w
}

// open makes a client that gives up soon.
func open(t *testing.T, c *kfake.Cluster, change func(*franz.Config)) *franz.Client {
	t.Helper()
	cfg := franz.Default()
	cfg.Brokers = c.ListenAddrs()
	cfg.RetryFor, cfg.RequestTimeout = 3*time.Second, 2*time.Second
	if change != nil {
		change(&cfg)
	}
	client, err := franz.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func TestConformance(t *testing.T) {
	for name, change := range map[string]func(*franz.Config){
		"default":       nil,
		"small-fetches": func(c *franz.Config) { c.FetchBytes = 64 << 10 },
	} {
		t.Run(name, func(t *testing.T) {
			kafkalogtest.Run(t, func(t *testing.T) kafkalogtest.Subject {
				c := fake(t)
				return kafkalogtest.Subject{Door: open(t, c, change), Cluster: commands(t, c)}
			}, kafkalogtest.Exceptions{})
		})
	}
}
