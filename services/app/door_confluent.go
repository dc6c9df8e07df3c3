//go:build librdkafka

package app

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/confluentinc/confluent-kafka-go/v2/kafka"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog/confluent"
)

// openKafka makes the door to Kafka over librdkafka. fault.ErrInvalid: what is configured has no counterpart there.
func (c Config) openKafka(*slog.Logger) (kafkaDoor, error) {
	if err := c.librdkafkaCan(); err != nil {
		return nil, err
	}
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

// librdkafkaCan refuses what would be ignored.
func (c Config) librdkafkaCan() error {
	var errs []error
	if c.Kafka.TLS.ServerName != "" {
		errs = append(errs, errors.New("kafka.tls.server_name: librdkafka takes the name from the broker's address"))
	}
	if c.Kafka.SASL.Mechanism == "OAUTHBEARER" {
		errs = append(errs, errors.New("kafka.sasl.mechanism OAUTHBEARER: librdkafka takes no token from the configuration"))
	}
	if len(errs) > 0 {
		return fmt.Errorf("kafka: %w: %w: use the program without the build tag librdkafka", fault.ErrInvalid, errors.Join(errs...))
	}
	return nil
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
