package objectname_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
)

var key = [16]byte{1, 2, 3}

func sample() objectname.DataFile {
	return objectname.DataFile{
		Table:     objectname.Table{Name: "inv_orders", Epoch: "abcdefghij234567"},
		View:      objectname.Current,
		Partition: 3, Range: kafkapos.Range{Start: 4096, End: 8192},
		Edition: 1, BlockLog2: 14, FileSchema: "aaaaaaaaaa", Encoding: "bbbbbbbbbb", Size: 123456,
	}.Signed(key)
}

func TestKeysParseBackToTheSameObject(t *testing.T) {
	d := sample()
	for _, obj := range []objectname.Object{
		d,
		objectname.Deletes{Data: d, Dialect: objectname.V2, E: 9000},
		objectname.Deletes{Data: d, Dialect: objectname.V3, E: 1},
		objectname.Metadata{Table: d.Table, View: objectname.Current, Dialect: objectname.V3, File: "7-x.metadata.json"},
	} {
		got, err := objectname.Parse(obj.Key())
		if err != nil || got != obj {
			t.Errorf("Parse(%q) = %#v, %v; want %#v", obj.Key(), got, err, obj)
		}
	}
}

func TestDataFileKeyIsTheDocumentedForm(t *testing.T) {
	want := "inv_orders-abcdefghij234567/current/data/3/4096-8192-v1-b14-saaaaaaaaaa-ebbbbbbbbbb-z123456-"
	if k := sample().Key(); !strings.HasPrefix(k, want) || !strings.HasSuffix(k, ".parquet") {
		t.Errorf("key %q, want %q<check>.parquet", k, want)
	}
}

func TestNamesThatWereNotIssuedAreNotFound(t *testing.T) {
	good := sample().Key()
	for _, k := range []string{
		"", "/", "a", good + "/", "/" + good, strings.ToUpper(good),
		strings.Replace(good, "4096", "04096", 1), strings.Replace(good, "4096", "+4096", 1),
		strings.Replace(good, "4096-8192", "8192-4096", 1), strings.Replace(good, "4096-8192", "4096-4096", 1),
		strings.Replace(good, "/3/", "/-3/", 1), strings.Replace(good, "/3/", "/03/", 1),
		strings.Replace(good, "/current/", "/../", 1), strings.Replace(good, "/data/", "//data/", 1),
		strings.Replace(good, "-z123456", "", 1), strings.Replace(good, "orders", "Orders", 1),
		"t-abcdefghij234567/current/metadata/v4/x.json", "t-abcdefghij234567/current/metadata/v2/..",
	} {
		if obj, err := objectname.Parse(k); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("Parse(%q) = %v, %v; want not found", k, obj, err)
		}
	}
}

func TestCheckCoversEveryPartOfTheName(t *testing.T) {
	d := sample()
	if !d.Verify(key) {
		t.Fatal("own check does not verify")
	}
	if d.Verify([16]byte{9}) {
		t.Error("verifies with another key")
	}
	change := map[string]func(*objectname.DataFile){
		"table": func(d *objectname.DataFile) { d.Table.Name = "x" },
		"epoch": func(d *objectname.DataFile) { d.Table.Epoch = "zbcdefghij234567" },
		"view":  func(d *objectname.DataFile) { d.View = objectname.Changes }, "partition": func(d *objectname.DataFile) { d.Partition++ },
		"start": func(d *objectname.DataFile) { d.Range.Start++ }, "end": func(d *objectname.DataFile) { d.Range.End++ },
		"edition": func(d *objectname.DataFile) { d.Edition++ }, "block": func(d *objectname.DataFile) { d.BlockLog2++ },
		"schema": func(d *objectname.DataFile) { d.FileSchema = "cccccccccc" }, "encoding": func(d *objectname.DataFile) { d.Encoding = "cccccccccc" },
		"size": func(d *objectname.DataFile) { d.Size++ },
	}
	for part, f := range change {
		c := d
		f(&c)
		if c.Verify(key) {
			t.Errorf("a changed %s still verifies", part)
		}
	}
}

func FuzzParse(f *testing.F) {
	d := sample()
	f.Add(d.Key())
	f.Add(objectname.Deletes{Data: d, Dialect: objectname.V3, E: 5}.Key())
	f.Add("t-abcdefghij234567/current/metadata/v2/1-x.metadata.json")
	f.Fuzz(func(t *testing.T, k string) {
		if obj, err := objectname.Parse(k); err == nil && obj.Key() != k {
			t.Fatalf("%q parses to an object with key %q", k, obj.Key())
		}
	})
}
