package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Program is a configuration and steps, each of which makes sense whatever stands before it: any may be left out.
type Program struct {
	config Step
	steps  []Step
}

// Step is a word and its arguments.
type Step struct {
	Word string
	Args []string
}

// String is the line of the step.
func (s Step) String() string { return strings.Join(append([]string{s.Word}, s.Args...), " ") }

// Number answers an argument; a program that is edited by hand may leave it out.
func (s Step) Number(i int) uint64 {
	n, _ := strconv.ParseUint(s.Text(i), 10, 64) // 0 is as good
	return n
}

// Text answers an argument, "" if it is left out.
func (s Step) Text(i int) string {
	if i >= len(s.Args) {
		return ""
	}
	return s.Args[i]
}

// String is the text that Parse reads.
func (p Program) String() string {
	lines := []string{p.config.String()}
	for _, s := range p.steps {
		lines = append(lines, s.String())
	}
	return strings.Join(lines, "\n") + "\n"
}

// Read parses a file.
func Read(file string) (Program, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Program{}, err
	}
	return Parse(string(text))
}

// Parse reads what String wrote; lines with # are for people.
func Parse(text string) (Program, error) {
	var p Program
	for line := range strings.SplitSeq(text, "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		s := Step{words[0], words[1:]}
		if s.Word == "config" {
			p.config = s
			continue
		}
		if !slices.ContainsFunc(vocabulary(), func(v chance) bool { return v.word == s.Word }) {
			return p, fmt.Errorf("there is no step %q", s.Word)
		}
		p.steps = append(p.steps, s)
	}
	if p.config.Word == "" {
		return p, fmt.Errorf("the program has no config line")
	}
	return p, nil
}

// Setting answers a setting of the configuration, 0 if it has none.
func (p Program) Setting(name string) int {
	n, _ := strconv.Atoi(p.Text(name)) // 0 is as good
	return n
}

// Text answers a setting of the configuration, "" if it has none.
func (p Program) Text(name string) string {
	for _, a := range p.config.Args {
		if v, ok := strings.CutPrefix(a, name+"="); ok {
			return v
		}
	}
	return ""
}

// With answers the program under another setting.
func (p Program) With(name, value string) Program {
	args := slices.DeleteFunc(slices.Clone(p.config.Args), func(a string) bool { return strings.HasPrefix(a, name+"=") })
	return Program{Step{p.config.Word, append(args, name+"="+value)}, p.steps}
}

// Generate makes the program of a seed.
func Generate(seed uint64, steps int) Program {
	r := rand.New(rand.NewPCG(seed, 2))
	p := Program{config: settings(r)}
	// What the first walk meets: many records, in runs and transactions, of keys that come again and again.
	for range 2 + r.IntN(4) {
		p.steps = append(p.steps, step("produce", 10+r.IntN(60), r.Uint32()))
		if r.IntN(2) == 0 {
			p.steps = append(p.steps, transaction(r))
		}
		// A lazy table has cuts before anything below them is read.
		if r.IntN(3) > 0 {
			p.steps = append(p.steps, step("peek", some(r)))
		}
	}
	// Whoever reads an old cut first lets the walk come by under newer ones.
	if r.IntN(3) > 0 {
		p.steps = append(p.steps, step("read", some(r), "v2", some(r)))
	}
	words := vocabulary()
	total := 0
	for _, w := range words {
		total += w.weight
	}
	for range steps {
		at := r.IntN(total)
		for _, w := range words {
			if at -= w.weight; at < 0 {
				p.steps = append(p.steps, w.make(r))
				break
			}
		}
	}
	return p
}

func step(word string, args ...any) Step {
	s := Step{Word: word}
	for _, a := range args {
		s.Args = append(s.Args, fmt.Sprint(a))
	}
	return s
}

// Shrink leaves out what the failure does not need, running at most tries programs.
func Shrink(p Program, tries int, fails func(Program) bool) Program {
	for size := len(p.steps) / 2; size >= 1; {
		smaller := false
		for at := 0; at+size <= len(p.steps); {
			if tries--; tries < 0 {
				return p
			}
			less := Program{p.config, slices.Concat(p.steps[:at], p.steps[at+size:])}
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
