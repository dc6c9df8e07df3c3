package icebergscan_test

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/frazil-io/frazil/libs/avrofile"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

const recordSchema = `{"type":"record","name":"t","fields":[
	{"name":"id","field-id":1,"type":"long"},
	{"name":"tags","field-id":2,"type":{"type":"array","items":"string","element-id":3}},
	{"name":"at","field-id":4,"type":["null",{"type":"long","logicalType":"timestamp-millis"}]},
	{"name":"nested","field-id":5,"type":["null",{"type":"record","name":"n","fields":[{"name":"a","field-id":6,"type":["null","string"]}]}]}]}`

func recordFile(tb testing.TB) []byte {
	tb.Helper()
	w := avrofile.New(recordSchema)
	for i := range int64(3) {
		w.Append(func(b []byte) []byte {
			b = avrofile.AppendLong(b, i)
			b = avrofile.AppendLong(b, 1)
			b = avrofile.AppendString(b, "skipped")
			b = avrofile.AppendLong(b, 0)
			switch i {
			case 0: // null, null
				return avrofile.AppendNull(avrofile.AppendNull(b))
			case 1: // a struct with a null
				return avrofile.AppendNull(avrofile.AppendSome(avrofile.AppendLong(avrofile.AppendSome(b), 7)))
			}
			return avrofile.AppendString(avrofile.AppendSome(avrofile.AppendSome(avrofile.AppendNull(b))), "x")
		})
	}
	body, err := w.Bytes()
	if err != nil {
		tb.Fatal(err)
	}
	return body
}

func TestRecords(t *testing.T) {
	var has []string
	var got []string
	paths := [][]int32{{5, 6}, {1}, {4}, {9}, {5, 9}}
	for v, err := range icebergscan.Records(bytes.NewReader(recordFile(t)), paths, func(path int, found bool, logical string) {
		has = append(has, fmt.Sprint(path, found, logical))
	}) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%d%q %d %d%v %d%d", v[0].Kind, v[0].Bytes, v[1].Int, v[2].Kind, v[2].Int, v[3].Kind, v[4].Kind))
	}
	if want := `[0"" 0 00 00 0"" 1 27000 00 4"x" 2 00 00]`; fmt.Sprint(got) != want {
		t.Errorf("got %v", got)
	}
	if want := "[0 true 1 true 2 truetimestamp-millis 3 false 4 false]"; fmt.Sprint(has) != want {
		t.Errorf("got %v", has)
	}
	for _, err := range icebergscan.Records(bytes.NewReader(recordFile(t)), [][]int32{{2, 3}}, nil) {
		if !errors.Is(err, fault.ErrUnsupported) {
			t.Errorf("in a list: %v", err)
		}
	}
}

func FuzzRecords(f *testing.F) {
	f.Add(recordFile(f))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := 0
		for range icebergscan.Records(bytes.NewReader(body), [][]int32{{1}, {5, 6}}, nil) {
			if n++; n > 1_000_000 {
				return
			}
		}
	})
}
