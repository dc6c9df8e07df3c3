package registry

// KeySubject is the subject that holds a topic's key schemas under the topic-name strategy, the default of every
// Confluent-compatible serializer.
func KeySubject(topic string) string { return topic + "-key" }

// ValueSubject is the subject that holds a topic's value schemas under the topic-name strategy.
func ValueSubject(topic string) string { return topic + "-value" }
