package soak

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// program is a configuration and steps, each of which makes sense whatever stands before it: any may be left out.
type program struct {
	config step
	steps  []step
}

// step is a word and its arguments.
type step struct {
	word string
	args []string
}

func (s step) String() string { return strings.Join(append([]string{s.word}, s.args...), " ") }

// number answers an argument; a program that is edited by hand may leave it out.
func (s step) number(i int) uint64 {
	if i >= len(s.args) {
		return 0
	}
	n, _ := strconv.ParseUint(s.args[i], 10, 64) // 0 is as good
	return n
}

func (s step) text(i int) string {
	if i >= len(s.args) {
		return ""
	}
	return s.args[i]
}

func (p program) String() string {
	lines := []string{p.config.String()}
	for _, s := range p.steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// parse reads what String wrote; lines with # are for people.
func parse(text string) (program, error) {
	var p program
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		s := step{words[0], words[1:]}
		if s.word == "config" {
			p.config = s
			continue
		}
		if !slices.ContainsFunc(vocabulary(), func(v chance) bool { return v.word == s.word }) {
			return p, fmt.Errorf("there is no step %q", s.word)
		}
		p.steps = append(p.steps, s)
	}
	if p.config.word == "" {
		return p, fmt.Errorf("the program has no config line")
	}
	return p, nil
}

// chance is a kind of step, how often it comes, and what its arguments are.
type chance struct {
	word   string
	weight int
	args   func(r *rand.Rand) []any
}

func none(*rand.Rand) []any { return nil }

func dialectOf(r *rand.Rand) string { return []string{"v2", "v3"}[r.IntN(2)] }

func vocabulary() []chance {
	seed := func(r *rand.Rand) any { return r.Uint32() }
	tag := func(r *rand.Rand) any { return string(rune('a' + r.IntN(4))) }
	return []chance{
		// records, seed
		{"produce", 26, func(r *rand.Rand) []any { return []any{1 + r.IntN(25), seed(r)} }},
		// records, seed, outcome
		{"txn", 8, func(r *rand.Rand) []any {
			return []any{1 + r.IntN(6), seed(r), []string{"commit", "commit", "abort"}[r.IntN(3)]}
		}},
		{"load", 16, func(r *rand.Rand) []any { return []any{dialectOf(r)} }},
		// which of the cuts that were seen
		{"read", 10, func(r *rand.Rand) []any { return []any{r.IntN(1000), dialectOf(r)} }},
		{"tag", 9, func(r *rand.Rand) []any { return []any{tag(r), r.IntN(1000)} }},
		{"untag", 2, func(r *rand.Rand) []any { return []any{tag(r)} }},
		{"readtag", 9, func(r *rand.Rand) []any { return []any{tag(r), dialectOf(r)} }},
		{"fold", 7, none},
		{"evict", 2, none},
		{"loseruns", 1, none},
		{"restart", 2, none},
		// milliseconds until then
		{"kill", 4, func(r *rand.Rand) []any { return []any{r.IntN(60), 1 + r.IntN(10), seed(r)} }},
		// partition, thousandths of the log
		{"logstart", 2, func(r *rand.Rand) []any { return []any{r.IntN(8), r.IntN(700)} }},
		{"recreate", 1, none},
		{"addparts", 1, func(r *rand.Rand) []any { return []any{1 + r.IntN(2)} }},
	}
}

// generate makes the program of a seed.
func generate(seed uint64, steps int) program {
	r := rand.New(rand.NewPCG(seed, 2))
	block := 2 * (1 + r.IntN(2))
	p := program{config: stepOf("config", []any{
		"partitions=" + strconv.Itoa(1+r.IntN(3)), "block=" + strconv.Itoa(block), "chunk=" + strconv.Itoa(block+r.IntN(4)),
		"fold=" + strconv.Itoa(1+r.IntN(3)), "pass=" + strconv.Itoa([]int{1, 20, 1000}[r.IntN(3)]),
		// milliseconds
		"retention=" + strconv.Itoa([]int{400, 1500, 600000}[r.IntN(3)]), "dense=" + strconv.Itoa([]int{0, 300}[r.IntN(2)]),
	})}
	p.steps = append(p.steps, stepOf("produce", []any{1 + r.IntN(80), r.Uint32()}))
	words := vocabulary()
	total := 0
	for _, w := range words {
		total += w.weight
	}
	for range steps {
		at := r.IntN(total)
		for _, w := range words {
			if at -= w.weight; at < 0 {
				p.steps = append(p.steps, stepOf(w.word, w.args(r)))
				break
			}
		}
	}
	return p
}

func stepOf(word string, args []any) step {
	s := step{word: word}
	for _, a := range args {
		s.args = append(s.args, fmt.Sprint(a))
	}
	return s
}

// setting answers a setting of the configuration.
func (p program) setting(name string) int {
	for _, a := range p.config.args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			n, _ := strconv.Atoi(v) // 0 is as good
			return n
		}
	}
	return 0
}

// shrink leaves out what the failure does not need, running at most tries programs.
func shrink(p program, tries int, fails func(program) bool) program {
	for size := len(p.steps) / 2; size >= 1; {
		smaller := false
		for at := 0; at+size <= len(p.steps); {
			if tries--; tries < 0 {
				return p
			}
			less := program{p.config, slices.Concat(p.steps[:at], p.steps[at+size:])}
			if fails(less) {
				p, smaller = less, true
			} else {
				at += size
			}
		}
		if !smaller || size > len(p.steps)/2 {
			size /= 2
		}
	}
	return p
}
