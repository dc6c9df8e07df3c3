// Package lint looks for what in a table, as it is, a declared reader cannot read, and for what goes wrong in some
// engine without an error.
//
// Run reads metadata only. OpenDeletes opens delete files as well: order, counts, checksums and paths inside them are
// nowhere else. Which engine does what is said where a check is made; versions and dates are in docs/LINT.md.
package lint
