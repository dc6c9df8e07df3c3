// Package icebergcommit makes the commits that exchange delete files of Iceberg tables that others write: manifests,
// manifest list, snapshot, and what a catalog is told.
//
// Nothing is lost on the way: entries that stay are carried from manifest to manifest as the bytes that they are,
// lines of the manifest list keep their summaries, and table metadata keeps keys that nobody here knows. Removed files
// are written as deleted entries, because that is where the expiry of snapshots looks for what it may delete.
//
// A commit that removes an equality delete is an overwrite and no replace, though no row changes: see
// docs/adr/0019-drain-commits-overwrite.md.
package icebergcommit
