package dedup

import "github.com/frazil-io/frazil/libs/kafkapos"

// startRule decides where a table starts in a log.
type startRule struct {
	finite               bool // retention removes records
	percent              int  // of the log's length, for the margin
	chunkLog2, blockLog2 int
}

// next answers the start that the next cut should have, given the present one (-1: none). It never goes back.
//
// A log that starts at 0, or whose topic keeps everything, is shown from its start: what is gone was deleted by
// hand. Otherwise the start runs ahead of the log start by a margin, so that a query that has begun does not lose
// its rows: a share of the log, at most one block. It moves to a chunk's boundary where that loses less than
// another margin, else to a block's on the same condition, else exactly. It moves when half of the margin is used
// up, so that not every cut renames the first file.
func (r startRule) next(l logState, present kafkapos.Offset) kafkapos.Offset {
	if !r.finite || l.start == 0 {
		return max(present, l.start)
	}
	margin := min((l.end-l.start)*kafkapos.Offset(r.percent)/100, 1<<r.blockLog2)
	if present >= l.start+margin/2 && present >= l.start {
		return present
	}
	need := l.start + margin
	for _, log2 := range []int{r.chunkLog2, r.blockLog2} {
		if at := roundUp(need, log2); at-need < margin && at <= l.end {
			return max(present, at)
		}
	}
	return max(present, need)
}

func roundUp(off kafkapos.Offset, log2 int) kafkapos.Offset {
	return (off + 1<<log2 - 1) &^ (1<<log2 - 1)
}
