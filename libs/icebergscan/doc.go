// Package icebergscan reads the metadata of Iceberg tables that others write: table metadata, manifest lists, and
// manifests as streams.
//
// A manifest is never held whole: entries are decoded one by one out of the current Avro block, only the fields that
// a caller wants are decoded, and an entry lends its memory until the next one. Fields are found by their field ids
// (Iceberg spec, "Manifests"), by name only in files without ids. What the rules of inheritance say of sequence
// numbers and snapshot ids is applied. Everything read is bytes from outside: what does not parse is
// fault.ErrCorrupt, and no length that a file states is allocated before its bytes have arrived.
package icebergscan
