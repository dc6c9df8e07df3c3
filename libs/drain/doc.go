// Package drain turns the equality deletes of an Iceberg table into position delete files (format version 2) or
// deletion vectors (version 3), without changing a row that any reader sees.
//
// An equality delete deletes the rows whose key columns equal one of its rows, in data files with a strictly lower data
// sequence number, of the same partition spec and partition; one of an unpartitioned spec is global (Iceberg spec,
// "Scan Planning"). The drain pins the head of a branch, takes as many equality deletes as fit in memory (a batch),
// finds the positions of their rows, and commits one snapshot that adds the positions and removes the batch. A batch of
// one delete file that does not fit is resolved in several passes over the data. Every batch stands for itself: what
// is committed is done, and a run that is ended at any point is gone on with by the next.
//
// A commit holds only if the branch has not moved. If it has, the new head is looked at: deletes of the batch that are
// gone make everything found worthless; data files that came with a lower sequence number, as a compaction brings them
// (use-starting-sequence-number), are scanned; those that went are forgotten; position deletes and vectors are read
// anew. New equality deletes stay for the next batch, and data files that were appended meanwhile have a higher
// sequence number.
//
// Memory: a part of Config.Memory for delete keys, a part for positions, which beyond that go to disk; some 300 bytes
// for each data file that the batch may touch, and some 300 for each equality delete.
package drain
