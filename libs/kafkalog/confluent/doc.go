// Package confluent is a second door to Kafka, over librdkafka: kafkalog.Metadata and kafkalog.Reader by another client
// than package franz, to check that one against. It needs cgo and the build tag librdkafka; without the tag the package
// is empty.
//
// librdkafka shows no batch headers: control records and records of aborted transactions look like gaps, and
// Visitor.NonRow is never called. Compacted topics must not be read through it.
package confluent
