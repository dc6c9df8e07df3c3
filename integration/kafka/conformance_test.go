// Package kafka tests the doors to Kafka against a real broker: what an in-process one only imitates, compaction,
// authentication and restarts.
package kafka

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/franz"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest/wire"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

func open(t *testing.T, addr string, change func(*franz.Config)) *franz.Client {
	t.Helper()
	cfg := franz.Default()
	cfg.Brokers = []string{addr}
	if change != nil {
		change(&cfg)
	}
	door, err := franz.New(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(door.Close)
	return door
}

func TestConformance(t *testing.T) {
	harness.NeedFull(t, "a real broker")
	broker := harness.StartKafka(t)
	kafkalogtest.Run(t, func(t *testing.T) kafkalogtest.Subject {
		cluster := wire.New(t, []string{broker.Addr()})
		return kafkalogtest.Subject{Door: open(t, broker.Addr(), nil), Cluster: cluster}
	}, kafkalogtest.Exceptions{NoDown: "one broker serves all cases", NoCompact: "the cleaner runs when it wants: see TestCompaction"})
}

// TestCompaction reads around what the real cleaner removed.
func TestCompaction(t *testing.T) {
	harness.NeedFull(t, "a real broker")
	broker := harness.StartKafka(t)
	cluster := wire.New(t, []string{broker.Addr()})
	cluster.Create(t, "compacted", 1, true)
	door := open(t, broker.Addr(), nil)
	topic, err := door.Topic(t.Context(), "compacted")
	if err != nil {
		t.Fatal(err)
	}
	if cfg, err := door.Config(t.Context(), "compacted"); err != nil || !cfg.Compact || cfg.Delete {
		t.Errorf("configuration %+v, %v", cfg, err)
	}
	rec := func(key string, n int) kafkalog.Record {
		// The cleaner goes by the records' timestamps.
		return kafkalog.Record{Key: []byte(key), Value: fmt.Append(nil, n), TimestampMs: time.Now().UnixMilli()}
	}
	for i := range 6 {
		cluster.Append(t, "compacted", 0, kafkalogtest.Zstd, rec("a", 2*i), rec(fmt.Sprint("only", i%2), 2*i+1))
	}
	read := func(rng kafkapos.Range) string {
		got := ""
		if _, err := door.Read(t.Context(), topic, 0, rng, kafkalog.Visitor{
			Record: func(r *kafkalog.Record) error { got += fmt.Sprintf("%d:%s=%s ", r.Offset, r.Key, r.Value); return nil },
			NonRow: func(r kafkapos.Range) error { got += r.String() + " "; return nil },
		}); err != nil {
			t.Fatalf("read %s: %v", rng, err)
		}
		return got
	}
	// The active segment is never cleaned: one more record rolls it, once it is old enough.
	const want = "9:only0=9 10:a=10 11:only1=11 "
	harness.Eventually(t, "the cleaner has run", func() error {
		cluster.Append(t, "compacted", 0, kafkalogtest.None, rec("roll", 0))
		if got := read(kafkapos.Range{Start: 0, End: 12}); got != want {
			return fmt.Errorf("left: %s", got)
		}
		return nil
	})
	for rng, want := range map[kafkapos.Range]string{
		{Start: 0, End: 9}: "", {Start: 3, End: 10}: "9:only0=9 ", {Start: 10, End: 11}: "10:a=10 ", {Start: 0, End: 1}: "",
	} {
		if got := read(rng); got != want {
			t.Errorf("read %s: %q, want %q", rng, got, want)
		}
	}
	if ends, err := door.Ends(t.Context(), topic); err != nil || ends[0].LogStart != 0 {
		t.Errorf("ends %+v, %v", ends, err)
	}
}

func TestAuthentication(t *testing.T) {
	harness.NeedFull(t, "a real broker")
	broker := harness.StartKafka(t)
	for name, tc := range map[string]struct {
		sasl franz.SASL
		want error
	}{
		"scram":                   {franz.SASL{Mechanism: "SCRAM-SHA-512", Username: harness.ScramUser, Password: harness.ScramPassword}, nil},
		"plain":                   {franz.SASL{Mechanism: "PLAIN", Username: harness.PlainUser, Password: harness.PlainPassword}, nil},
		"wrong password":          {franz.SASL{Mechanism: "SCRAM-SHA-512", Username: harness.ScramUser, Password: "no"}, fault.ErrDenied},
		"wrong password of plain": {franz.SASL{Mechanism: "PLAIN", Username: harness.PlainUser, Password: "no"}, fault.ErrDenied},
	} {
		t.Run(name, func(t *testing.T) {
			door := open(t, broker.SASLAddr(), func(c *franz.Config) { c.SASL = tc.sasl })
			if _, err := door.Topics(t.Context()); !errors.Is(err, tc.want) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
		})
	}
}

// TestARestartOfTheBroker: calls fail while it is away and go on when it is back.
func TestARestartOfTheBroker(t *testing.T) {
	harness.NeedFull(t, "a real broker")
	broker := harness.StartKafka(t)
	cluster := wire.New(t, []string{broker.Addr()})
	cluster.Create(t, "topic", 1, false)
	cluster.Append(t, "topic", 0, kafkalogtest.LZ4, kafkalog.Record{Key: []byte("k"), Value: []byte("v"), TimestampMs: 1})
	door := open(t, broker.Addr(), func(c *franz.Config) { c.RequestTimeout, c.RetryFor = 2*time.Second, time.Second })
	topic, err := door.Topic(t.Context(), "topic")
	if err != nil {
		t.Fatal(err)
	}
	read := func() error {
		_, err := door.Read(t.Context(), topic, 0, kafkapos.Range{End: 1}, kafkalog.Visitor{Record: func(*kafkalog.Record) error { return nil }})
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	broker.Stop(t)
	if err := read(); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("read of a broker that is away: %v", err)
	}
	if _, err := door.Ends(t.Context(), topic); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("ends of a broker that is away: %v", err)
	}
	broker.Start(t)
	harness.Eventually(t, "the door works again", read)
}
