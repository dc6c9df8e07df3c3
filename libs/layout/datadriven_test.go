package layout_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/layout"
)

var rewrite = flag.Bool("rewrite", false, "write the results into testdata/*.td")

// testCase is a command with its input and the result it should have. Comments before it are kept.
type testCase struct {
	comment, command string
	input            []string
	want             string
	line             int
}

func (c testCase) arg(t *testing.T, name string) string {
	t.Helper()
	for _, f := range strings.Fields(c.command)[1:] {
		if v, ok := strings.CutPrefix(f, name+"="); ok {
			return v
		}
	}
	t.Fatalf("line %d: no %s", c.line, name)
	return ""
}

func (c testCase) rng(t *testing.T, name string) kafkapos.Range {
	t.Helper()
	from, to, _ := strings.Cut(c.arg(t, name), ",")
	return kafkapos.Range{Start: kafkapos.Offset(number(t, from)), End: kafkapos.Offset(number(t, to))}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// readCases reads: comments, a command, its input, a line of ----, the result, an empty line.
func readCases(t *testing.T, file string) []testCase {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []testCase
	line := 1
	for part := range strings.SplitSeq(strings.TrimRight(string(b), "\n")+"\n", "\n\n") {
		c := testCase{line: line}
		head, want, _ := strings.Cut(part+"\n", "----\n")
		c.want = strings.TrimRight(want, "\n")
		for l := range strings.SplitSeq(strings.TrimRight(head, "\n"), "\n") {
			switch {
			case strings.HasPrefix(l, "#"):
				c.comment += l + "\n"
			case c.command == "":
				c.command = l
			default:
				c.input = append(c.input, l)
			}
		}
		out = append(out, c)
		line += strings.Count(part, "\n") + 2
	}
	return out
}

func runCases(t *testing.T, file string, run func(*testing.T, testCase) string) {
	t.Helper()
	cases := readCases(t, file)
	var b strings.Builder
	for i, c := range cases {
		got := strings.TrimRight(run(t, c), "\n")
		if got != c.want && !*rewrite {
			t.Errorf("%s:%d: %s\ngot  %s\nwant %s", file, c.line, c.command, got, c.want)
		}
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(c.comment + c.command + "\n")
		for _, l := range c.input {
			b.WriteString(l + "\n")
		}
		b.WriteString("----\n")
		if got != "" {
			b.WriteString(got + "\n")
		}
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRowGroups(t *testing.T) {
	runCases(t, filepath.Join("testdata", "rowgroups.td"), func(t *testing.T, c testCase) string {
		k := number(t, strings.TrimPrefix(c.arg(t, "block"), "4^"))
		var out []string
		for _, g := range layout.RowGroups(c.rng(t, "range"), int(2*k)) {
			out = append(out, g.String())
		}
		return strings.Join(out, " ")
	})
}

func TestLayouts(t *testing.T) {
	var current *layout.Layout
	runCases(t, filepath.Join("testdata", "layouts.td"), func(t *testing.T, c testCase) string {
		switch command, _, _ := strings.Cut(c.command, " "); command {
		case "layout":
			ls, err := build(t, c, int(number(t, c.arg(t, "log2"))))
			if err != nil {
				return kind(err)
			}
			current = ls[0]
			out := ""
			for _, l := range ls {
				out += describe(l) + "\n"
			}
			return out
		case "extend":
			ls, err := build(t, c, 4)
			if err != nil {
				return kind(err)
			}
			grown, err := current.Extend(ls[0])
			if err != nil {
				return kind(err)
			}
			current = grown
			return describe(grown)
		case "positions":
			return positions(current, c.rng(t, "file"))
		case "class":
			var out []string
			for _, f := range strings.Fields(c.command)[1:] {
				name := "unknown"
				if cl, ok := current.Class(kafkapos.Offset(number(t, f))); ok {
					name = className(cl)
				}
				out = append(out, f+" "+name)
			}
			return strings.Join(out, " ")
		default:
			t.Fatalf("command %q", c.command)
			return ""
		}
	})
}

func kind(err error) string {
	switch {
	case errors.Is(err, fault.ErrInvalid):
		return "invalid"
	case errors.Is(err, fault.ErrConflict):
		return "conflict"
	}
	return err.Error()
}

func className(c layout.Class) string {
	return [...]string{"gap", "row", "delete", "nonrow", "bad", "truncate"}[c]
}

func build(t *testing.T, c testCase, log2 int) ([]*layout.Layout, error) {
	t.Helper()
	b, err := layout.NewBuilder(c.rng(t, "range"), log2)
	if err != nil {
		return nil, err
	}
	for _, l := range c.input {
		at, name, _ := strings.Cut(l, " ")
		if from, to, ok := strings.Cut(at, "-"); ok {
			err = b.AddNonRow(kafkapos.Range{Start: kafkapos.Offset(number(t, from)), End: kafkapos.Offset(number(t, to))})
		} else {
			cl := layout.Gap
			for className(cl) != name {
				cl++
			}
			err = b.Add(kafkapos.Offset(number(t, at)), cl)
		}
		if err != nil {
			return nil, err
		}
	}
	return b.Layouts()
}

func describe(l *layout.Layout) string {
	out := l.Range().String()
	if rows := positions(l, l.Range()); rows != "" {
		out += " rows " + rows
	}
	for _, s := range []struct {
		name string
		of   layout.Classes
	}{
		{"deletes", layout.DeletedKeyRows}, {"nonrows", 1 << layout.NonRow}, {"bad", layout.ErrorRows}, {"truncates", 1 << layout.Truncate},
	} {
		if set := l.Set(s.of); !set.IsEmpty() {
			out += " " + s.name
			for it := set.Iterator(); it.HasNext(); {
				out += fmt.Sprintf(" %d", l.ChunkStart()+kafkapos.Offset(it.Next()))
			}
		}
	}
	return out
}

// positions prints what Position says, after it was compared with Offset and Positions.
func positions(l *layout.Layout, file kafkapos.Range) string {
	var out []string
	for off := file.Start; off < file.End; off++ {
		pos, ok := l.Position(file.Start, off)
		if !ok {
			continue
		}
		back, ok := l.Offset(file.Start, pos)
		batch := l.Positions(layout.CurrentRows, file, roaring.BitmapOf(uint32(off-l.ChunkStart())))
		if !ok || back != off || batch.GetCardinality() != 1 || batch.Minimum() != uint32(pos) {
			return fmt.Sprintf("offset %d at %d: back %d, batch %v", off, pos, back, batch)
		}
		out = append(out, fmt.Sprintf("%d->%d", off, pos))
	}
	return strings.Join(out, " ")
}
