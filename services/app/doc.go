// Package app is the frazil binary without its main: the command line, the configuration, and the wiring of the four
// services into a process.
//
// Services meet only through their generated gRPC clients. In one process the same clients speak over an in-memory
// pipe with the same interceptors, so that there is one code path.
package app
