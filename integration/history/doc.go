// Package history runs random histories of a topic through the whole product, in one process over a broker that
// speaks Kafka's protocol, and judges every answer by a plain fold of what was produced: at every cut, the live
// rows are the fold, whatever chunk and block sizes, dialects, transactions, restarts and re-creations come between.
package history
