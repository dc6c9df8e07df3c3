package kafkaname

import (
	"regexp"
	"strings"
)

// Internal finds topics that hold no table by their names: those of Kafka, Connect, MirrorMaker, Kafka Streams,
// the schema registry and Debezium's own.
type Internal struct {
	pattern *regexp.Regexp
	// prefixes are Debezium topic prefixes: <prefix>.<schema>.<table> exists.
	prefixes map[string]bool
}

// internalPattern is matched against whole names.
const internalPattern = `__.*` + // __consumer_offsets, __transaction_state, __debezium-heartbeat.<prefix>
	`|_schemas.*|_confluent.*` +
	`|(.*[._-])?connect[._-](configs?|offsets?|status|statuses)` +
	`|mm2-.*|.*\.internal|.*\.checkpoints\.internal` +
	`|.*-changelog|.*-repartition` +
	`|(.*[._-])?debezium[._-]heartbeat.*` +
	`|(.*[._-])?(schema[._-]?history|dbhistory|schema-changes)([._-].*)?`

// NewInternal prepares the rules for a set of topics: a name alone does not say that shop.transaction is
// Debezium's, but shop.public.orders beside it does.
func NewInternal(topics []string) *Internal {
	in := &Internal{pattern: regexp.MustCompile(`^(?:` + internalPattern + `)$`), prefixes: map[string]bool{}}
	for _, t := range topics {
		if prefix, rest, ok := strings.Cut(t, "."); ok && strings.Contains(rest, ".") {
			in.prefixes[prefix] = true
		}
	}
	return in
}

// Match reports whether a topic holds no table.
func (in *Internal) Match(topic string) bool {
	if in.pattern.MatchString(topic) {
		return true
	}
	prefix, ok := strings.CutSuffix(topic, ".transaction")
	return ok && in.prefixes[prefix]
}
