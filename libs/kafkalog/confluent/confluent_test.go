//go:build librdkafka

package confluent_test

import (
	"strings"
	"testing"
	"time"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"
	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/frazil-io/frazil/libs/kafkalog/confluent"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest"
	"github.com/frazil-io/frazil/libs/kafkalog/kafkalogtest/wire"
)

func TestConformance(t *testing.T) {
	kafkalogtest.Run(t, func(t *testing.T) kafkalogtest.Subject {
		c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.ClusterID("fake"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		w := wire.New(t, c.ListenAddrs())
		w.CompactNow = func(testing.TB) { c.Compact() }
		w.Stop = func(testing.TB) { c.Close() }
		door, err := confluent.New(kafka.ConfigMap{"bootstrap.servers": strings.Join(c.ListenAddrs(), ",")}, 2*time.Second, 5*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(door.Close)
		return kafkalogtest.Subject{Door: door, Cluster: w}
	}, kafkalogtest.Exceptions{HidesNonRow: true})
}
