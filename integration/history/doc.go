// Package history runs random programs against the whole product and judges every answer by a plain fold of what was
// produced. A program is a configuration and steps: records, transactions, reads of any snapshot, tags, and whatever
// happens to processes, to their state, and to the topic, whose logs are also cut off as by an unclean election. It is
// a text: one that fails is printed with its seed, shrunk, written to a file, and can be run again. The product is
// behind an interface: processes within the test over a state in memory here, and processes of their own over a disk or
// Redis in integration/soak.
//
// A run without flags has the same programs every time: a change is to blame for a red one. -history.first=0 draws others,
// and `make soak` does nothing else.
//
// Rows are never wrong: what is read is the fold at its cut, or an error that is allowed in that situation. These are:
//
//   - 503 from a load or a read, at any time: the client comes back, and has an answer within 90 s.
//   - 400 for a load of v3 while a lazy table was not read whole, which says so; v3 does not list its
//     snapshots that show files that nobody has read.
//   - A load shows fewer records than there are for a while, never for good. Where partitions were added it shows the
//     last cut for good and says so, or all of them if its state epoch was made after. It may show the topic before,
//     for a moment, after that was created anew.
//   - A snapshot that was seen is not listed any more: its retention is over and no tag has it; Kafka has passed its
//     start; or the state was rolled back, or a log cut off, after it was seen. A tag goes only for the last three
//     reasons.
//   - 404 NoSuchKey for a file of a snapshot that is not listed any more, or whose start Kafka has passed, or of a
//     topic that was deleted. For the last it is a must.
//   - 404 NoSuchKey for files of a snapshot without a tag that is listed: it may be dropped, or its files may be cut,
//     between the load and the read. One that goes on being listed must be readable within some loads.
//   - A snapshot whose end a log was cut off below is the fold of what was there then, or is gone: its state epoch is
//     given up, and once a process was loaded from, its files are 404 NoSuchKey.
//   - 404 NoSuchKey for files that are named by another encoder, while processes with two of them run side by side.
//   - 400 for a tag on a snapshot that is not listed; 409 for one on a table that was made anew meanwhile.
//   - What another replica has set or dropped is known once the ends have moved.
//   - A new state epoch only after the topic was created anew, the state was rolled back, or a log was cut off. Leaders
//     that have lost nothing change nothing.
//
// Everything else fails the program.
//
// These bugs were planted, one at a time, under 20 programs or the tests beside the code. What went red, programs first
// where one did:
//
//	the collector looks at no version         a listed snapshot is unreadable; in services/dedup
//	                                          TestNothingIsCollectedThatALateWriterMayStillName
//	composed deletes kept by chunk and cut,   a delete file has another length than was promised
//	without the data path
//	composed deletes kept by cut alone        likewise; TestHistories of services/dedup
//	404 by age instead of by group            a listed snapshot is unreadable; TestFoldingChangesNoAnswer
//	a folded group is served in between       TestBetweenKeptCutsNothingIsLeft, and in libs/marks
//	                                          TestAFoldedGroupIsAllOrNothing
//	marks are published while runs are        wrong rows; TestAnyDamagedRunIsMadeAgain, TestHistories
//	missing
//	a head is set without its version         TestALateHeadLoses
//	the record is set without its version     TestTagsAndCutsAtOnce, TestATagSetMeanwhileIsNotLost
//	the leader epoch of what was read is not  a state epoch that has shown what was cut off stays; leader_test.go
//	looked at
package history
