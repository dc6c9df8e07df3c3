// Package soak runs random programs against the whole product, in a process of its own that is stopped, killed and
// robbed of its files, over a broker in the test. Every read at every snapshot that was ever seen must be a plain fold
// of what was produced, or one of the errors that are allowed in that situation. A program is a text: one that fails is
// printed, shrunk, and can be run again.
package soak
