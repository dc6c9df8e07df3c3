// Package soak runs the programs of integration/history for as long as one likes, also against processes of their own:
// over a disk, killed and robbed of their files, and several of them over a Redis that is rolled back. What is allowed
// to readers is written there. A program that fails is printed, shrunk, and can be run again.
package soak
