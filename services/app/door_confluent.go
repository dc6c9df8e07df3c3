//go:build librdkafka

package app

import (
	"log/slog"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/frazil-io/frazil/libs/kafkalog/confluent"
)

// openKafka makes the door to Kafka over librdkafka.
func (c Config) openKafka(*slog.Logger) (kafkaDoor, error) {
	own := c.kafka()
	conf := kafka.ConfigMap{"bootstrap.servers": strings.Join(own.Brokers, ","), "client.id": own.ClientID}
	set := func(key, value string) {
		if value != "" {
			conf[key] = value
		}
	}
	set("client.rack", own.RackID)
	set("security.protocol", c.securityProtocol())
	set("ssl.ca.location", own.TLS.CAFile)
	set("ssl.certificate.location", own.TLS.CertFile)
	set("ssl.key.location", own.TLS.KeyFile)
	if own.TLS.InsecureSkipVerify {
		conf["enable.ssl.certificate.verification"] = false
	}
	set("sasl.mechanism", own.SASL.Mechanism)
	set("sasl.username", own.SASL.Username)
	set("sasl.password", string(own.SASL.Password))
	return confluent.New(conf, own.RequestTimeout, own.RetryFor)
}

func (c Config) securityProtocol() string {
	switch {
	case c.Kafka.TLS.Enabled && c.Kafka.SASL.Mechanism != "":
		return "sasl_ssl"
	case c.Kafka.TLS.Enabled:
		return "ssl"
	case c.Kafka.SASL.Mechanism != "":
		return "sasl_plaintext"
	}
	return "plaintext"
}
