// Package objectname is the grammar of every object key in the bucket. The name of a data file is the contract:
// it holds all that serving needs, and a keyed check, so that only names that were issued are served.
//
//	<table>-<state epoch>/<view>/metadata/<dialect>/<file>
//	<table>-<state epoch>/<view>/data/<partition>/<data file>.parquet
//	<table>-<state epoch>/<view>/deletes/<dialect>/<partition>/<data file>-x<E>.parquet|.puffin
//	data file = <start>-<end>-v<edition>-b<log2 of block>-s<file schema>-e<encoding id>-z<declared size>-<check>
//
// Characters are [A-Za-z0-9._/-] only, so that no two clients encode a key differently.
package objectname
