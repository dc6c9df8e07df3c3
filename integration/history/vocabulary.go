package history

import (
	"fmt"
	"math/rand/v2"
)

// chance is a kind of step, how often it comes, and how one is made.
type chance struct {
	word   string
	weight int
	make   func(r *rand.Rand) Step
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// settings of a program: what the product is told, and what the model writes.
func settings(r *rand.Rand) Step {
	block := 2 * (1 + r.IntN(2))
	return step("config",
		fmt.Sprintf("partitions=%d", 1+r.IntN(3)),
		fmt.Sprintf("keys=%d", pick(r, 3, 8, 25)),
		fmt.Sprintf("block=%d", block),
		fmt.Sprintf("chunk=%d", block+pick(r, 0, 0, 1, 2, 3)),
		"plan="+pick(r, "eager", "lazy"),
		fmt.Sprintf("processes=%d", pick(r, 1, 2, 2, 3)),
		fmt.Sprintf("parallel=%d", 1+r.IntN(3)),
		// How many marks make a fold, and how many a pass of it.
		fmt.Sprintf("fold=%d", 1+r.IntN(3)), fmt.Sprintf("pass=%d", pick(r, 1, 20, 1000)),
		// Milliseconds.
		fmt.Sprintf("retention=%d", pick(r, 400, 1500, 600000)), fmt.Sprintf("dense=%d", pick(r, 0, 300)),
		fmt.Sprintf("background=%d", pick(r, 10, 1000)),
		// Bytes of row groups that are kept: 0 makes all of them again at every read.
		fmt.Sprintf("cache=%d", pick(r, 0, 1<<30, 1<<30)),
	)
}

func transaction(r *rand.Rand) Step {
	return step("txn", 1+r.IntN(6), r.Uint32(), pick(r, "commit", "commit", "abort"))
}

func dialect(r *rand.Rand) string { return pick(r, "v2", "v3") }

func tagName(r *rand.Rand) string { return pick(r, "a", "b", "c", "d") }

// some is a number that picks one of what there is then.
func some(r *rand.Rand) int { return r.IntN(1000) }

func alone(word string) func(*rand.Rand) Step {
	return func(*rand.Rand) Step { return step(word) }
}

// vocabulary is all steps. A process is given by a number that picks one.
func vocabulary() []chance {
	return []chance{
		// records, seed
		{"produce", 26, func(r *rand.Rand) Step { return step("produce", 1+r.IntN(25), r.Uint32()) }},
		// records, seed, outcome
		{"txn", 8, transaction},
		// dialect, process that is asked
		{"load", 18, func(r *rand.Rand) Step { return step("load", dialect(r), some(r)) }},
		// process: load and read nothing
		{"peek", 10, func(r *rand.Rand) Step { return step("peek", some(r)) }},
		// which of the snapshots, which of its files: read only that
		{"glance", 6, func(r *rand.Rand) Step { return step("glance", some(r), some(r)) }},
		// which of the snapshots that were seen, dialect, process
		{"read", 12, func(r *rand.Rand) Step { return step("read", some(r), dialect(r), some(r)) }},
		// which of the tables that clients hold
		{"held", 5, func(r *rand.Rand) Step { return step("held", some(r)) }},
		// name, which of the snapshots
		{"tag", 7, func(r *rand.Rand) Step { return step("tag", tagName(r), some(r)) }},
		{"untag", 2, func(r *rand.Rand) Step { return step("untag", tagName(r)) }},
		{"readtag", 8, func(r *rand.Rand) Step { return step("readtag", tagName(r), dialect(r)) }},
		{"fold", 4, alone("fold")},
		// process
		{"evict", 2, func(r *rand.Rand) Step { return step("evict", some(r)) }},
		{"loseruns", 2, func(r *rand.Rand) Step { return step("loseruns", some(r)) }},
		{"restart", 2, func(r *rand.Rand) Step { return step("restart", some(r)) }},
		// process, milliseconds until then, records, seed
		{"kill", 2, func(r *rand.Rand) Step { return step("kill", some(r), r.IntN(60), 1+r.IntN(10), r.Uint32()) }},
		// what happens, at which write of the state, process, records, seed
		{"trap", 12, func(r *rand.Rand) Step {
			return step("trap", pick(r, append(traps(), "stall", "stall", "pause")...), 1+r.IntN(pick(r, 4, 24)), some(r), 1+r.IntN(20), r.Uint32())
		}},
		{"resume", 3, alone("resume")},
		// how many there are from now on
		{"replicas", 2, func(r *rand.Rand) Step { return step("replicas", 1+r.IntN(3)) }},
		// all processes or one beside the others, which
		{"upgrade", 2, func(r *rand.Rand) Step { return step("upgrade", pick(r, "all", "one", "one"), some(r)) }},
		// how many loads ago, who remembers
		{"rollback", 2, func(r *rand.Rand) Step { return step("rollback", r.IntN(4), pick(r, "all", "one", "none")) }},
		// partition, thousandths of the log
		{"logstart", 3, func(r *rand.Rand) Step { return step("logstart", some(r), r.IntN(700)) }},
		// partition, thousandths of the log that stay, records written then, seed
		{"truncate", 3, func(r *rand.Rand) Step {
			return step("truncate", some(r), min(1000, r.IntN(1300)), r.IntN(30), r.Uint32())
		}},
		// records, seed
		{"recreate", 2, func(r *rand.Rand) Step { return step("recreate", 20+r.IntN(120), r.Uint32()) }},
		{"addparts", 1, func(r *rand.Rand) Step { return step("addparts", 1+r.IntN(2)) }},
	}
}

// faults are the words that are no use of the product.
func faults() []string {
	return []string{"evict", "loseruns", "restart", "kill", "replicas", "upgraded", "two encoders", "rollback", "logstart", "cut off", "recreate", "addparts"}
}
