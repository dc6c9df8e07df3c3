// Package rpc is what every Frazil service and client speaks gRPC with: the translation between fault kinds and
// status codes, the codec of the bulk streams, and the in-memory pipe between services of one process.
//
// Only this package maps kinds to codes; only the edge maps kinds to HTTP.
package rpc
