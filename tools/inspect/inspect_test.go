package inspect_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/inspect"
)

func run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out, errs bytes.Buffer
	err := inspect.Command().Run(t.Context(), args, command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), err
}

func TestANameIsTakenApart(t *testing.T) {
	data := objectname.DataFile{
		Table: objectname.Table{Name: "orders", Epoch: "abcdefghijklmnop"}, View: objectname.Current, Partition: 3,
		Range: kafkapos.Range{Start: 16384, End: 20000}, Edition: 1, BlockLog2: 12,
		FileSchema: "aaaaaaaaaa", Encoding: "bbbbbbbbbb", Size: 4711,
	}.Signed([16]byte{1})
	out, err := run(t, "s3://frazil/"+objectname.Deletes{Data: data, Dialect: objectname.V3, E: 20000}.Key())
	if err != nil {
		t.Fatal(err)
	}
	var got inspect.About
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.Kind != "deletes" || got.Table != "orders" || got.Dialect != "v3" || got.E == nil || *got.E != 20000 {
		t.Errorf("got %+v", got)
	}
	if want := (inspect.Data{3, 16384, 20000, 1, 4096, "aaaaaaaaaa", "bbbbbbbbbb", 4711}); *got.Data != want {
		t.Errorf("data %+v, want %+v", *got.Data, want)
	}
	if out, err = run(t, data.Key()); err != nil || !strings.Contains(out, `"data file"`) {
		t.Errorf("%s, %v", out, err)
	}
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	if _, err := run(t, "s3://frazil/somewhere/else.parquet"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if _, err := run(t); !errors.Is(err, command.ErrUsage) {
		t.Errorf("without arguments: %v", err)
	}
	if _, err := run(t, "s3://frazil"); err == nil {
		t.Error("a bucket alone is accepted")
	}
}
