package probe

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/tools/command"
)

// The command lines and metrics in docs/PROBE.md are those of the command.
func TestTheExamplesOfTheDocuments(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "PROBE.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, m := range regexp.MustCompile(`(?m)(?:^|frazil  )frazil probe (.*?)(?: >>.*)?$|args: \[probe, (.*)\]`).FindAllStringSubmatch(string(text), -1) {
		lines++
		args := strings.Fields(m[1])
		if m[2] != "" {
			args = strings.Split(m[2], ", ")
		}
		if _, err := parse(args, command.Streams{Out: io.Discard, Err: io.Discard}); err != nil {
			t.Errorf("probe %q: %v", args, err)
		}
	}
	dir := t.TempDir()
	table := orders(t, dir)
	table.Metadata()
	table.Lake.WriteFiles(t)
	out, err := probeIt(t, clock(), "--metadata", table.MetadataLocation(), "--format", "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	b := newBoard(&options{tables: []string{"shop.orders"}})
	b.put("shop.orders", nil)
	out += b.metrics()
	names := regexp.MustCompile(`frazil_table_\w+`).FindAllString(string(text), -1)
	for _, name := range names {
		if !strings.Contains(out, "# TYPE "+name+" ") {
			t.Errorf("there is no metric %s", name)
		}
	}
	if lines != 3 || len(names) < 4 {
		t.Errorf("%d command lines and %d metrics were found", lines, len(names))
	}
}
