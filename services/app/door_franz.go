//go:build !librdkafka

package app

import (
	"log/slog"

	"github.com/frazil-io/frazil/libs/kafkalog/franz"
)

// openKafka makes the door to Kafka.
func (c Config) openKafka(log *slog.Logger) (kafkaDoor, error) { return franz.New(c.kafka(), log) }
