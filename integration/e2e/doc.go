// Package e2e tests the binary from outside: real topics go into a broker, and engines that know nothing of Frazil read
// the tables. What they must see comes from a plain fold of the captured topics that shares no code with the product.
//
// FRAZIL_INTEGRATION chooses the scale (package harness): smoke by default, full for the whole matrix.
package e2e
