//go:build librdkafka

package app

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
)

// What librdkafka has no setting for must not be ignored.
func TestWhatLibrdkafkaCannotIsRefused(t *testing.T) {
	for key, change := range map[string]func(*KafkaConfig){
		"kafka.tls.server_name": func(k *KafkaConfig) { k.TLS.Enabled, k.TLS.ServerName = true, "kafka.internal" },
		"kafka.sasl.mechanism":  func(k *KafkaConfig) { k.SASL.Mechanism = "OAUTHBEARER" },
	} {
		c := usable()
		change(&c.Kafka)
		if _, err := c.openKafka(slog.New(slog.DiscardHandler)); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("%s: %v", key, err)
		}
	}
}
