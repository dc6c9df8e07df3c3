// Package live tests the binary against a running database: PostgreSQL, Debezium in a Kafka Connect worker, Apache Kafka
// and an Apicurio Registry, all started by the test. Engines that know nothing of Frazil must read what the database
// itself says.
package live
