package command_test

import (
	"errors"
	"flag"
	"io"
	"slices"
	"testing"

	"github.com/frazil-io/frazil/tools/command"
)

func TestFlagsMayStandAnywhere(t *testing.T) {
	for _, tc := range []struct {
		args, rest []string
		format     string
	}{
		{[]string{"a", "--format", "json", "b"}, []string{"a", "b"}, "json"},
		{[]string{"--format=json", "a"}, []string{"a"}, "json"},
		{[]string{"a", "b", "--format", "json"}, []string{"a", "b"}, "json"},
		{[]string{"a", "--", "--format", "json"}, []string{"a", "--format", "json"}, "table"},
		{[]string{"--", "a"}, []string{"a"}, "table"},
		{nil, nil, "table"},
	} {
		f := flag.NewFlagSet("x", flag.ContinueOnError)
		f.SetOutput(io.Discard)
		format := f.String("format", "table", "")
		rest, err := command.Parse(f, tc.args)
		if err != nil || !slices.Equal(rest, tc.rest) || *format != tc.format {
			t.Errorf("%q: rest %q, format %s, error %v", tc.args, rest, *format, err)
		}
	}
}

func TestAnUnknownFlagIsUsage(t *testing.T) {
	f := flag.NewFlagSet("x", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	if _, err := command.Parse(f, []string{"a", "--nope"}); !errors.Is(err, command.ErrUsage) {
		t.Errorf("got %v", err)
	}
	if _, err := command.Parse(f, []string{"a", "-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("got %v", err)
	}
}
