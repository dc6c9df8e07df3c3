package recordbatch_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkalog/recordbatch"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

const limit = 1 << 20

// encode writes a batch with another library's types. The attributes' low bits name the codec.
func encode(t testing.TB, b kmsg.RecordBatch, records ...kmsg.Record) []byte {
	t.Helper()
	var body []byte
	for _, r := range records {
		one := r.AppendTo(nil)[1:] // a length of 0 is one byte
		body = append(binary.AppendVarint(body, int64(len(one))), one...)
	}
	b.Magic, b.NumRecords = 2, int32(len(records))
	b.Records = compress(t, b.Attributes, body)
	return seal(b)
}

func compress(t testing.TB, attributes int16, body []byte) []byte {
	t.Helper()
	codecs := map[int16]kgo.CompressionCodec{1: kgo.GzipCompression(), 2: kgo.SnappyCompression(), 3: kgo.Lz4Compression(), 4: kgo.ZstdCompression()}
	codec, ok := codecs[attributes&7]
	if !ok {
		return body
	}
	c, err := kgo.DefaultCompressor(codec)
	if err != nil {
		t.Fatal(err)
	}
	out, used := c.Compress(new(bytes.Buffer), body)
	if int16(used) != attributes&7 {
		t.Fatalf("codec %d was used, want %d", used, attributes&7)
	}
	return bytes.Clone(out)
}

// seal sets the length and the checksum.
func seal(b kmsg.RecordBatch) []byte {
	b.Length = int32(len(b.AppendTo(nil)) - 12)
	b.CRC = int32(crc32.Checksum(b.AppendTo(nil)[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b.AppendTo(nil)
}

// decode writes down every record of every batch in p.
func decode(p []byte) (string, error) {
	var out strings.Builder
	d := recordbatch.NewDecoder(limit)
	for {
		b, rest, ok, err := recordbatch.Next(p)
		if err != nil || !ok {
			return out.String(), err
		}
		if err := b.Verify(); err != nil {
			return out.String(), err
		}
		err = d.Records(&b, func(r *kafkalog.Record) error {
			if !b.Range().Contains(r.Offset) {
				return fmt.Errorf("offset %d outside of %s", r.Offset, b.Range())
			}
			fmt.Fprintf(&out, "%d@%d %q=%q %q\n", r.Offset, r.TimestampMs, r.Key, r.Value, r.Headers)
			return nil
		})
		if err != nil {
			return out.String(), err
		}
		p = rest
	}
}

func sample(attributes int16) kmsg.RecordBatch {
	return kmsg.RecordBatch{FirstOffset: 100, LastOffsetDelta: 4, Attributes: attributes, FirstTimestamp: 1000, MaxTimestamp: 2000, ProducerID: 9, PartitionLeaderEpoch: 3}
}

func records() []kmsg.Record {
	return []kmsg.Record{
		{OffsetDelta: 0, TimestampDelta64: 5, Key: []byte("k"), Value: bytes.Repeat([]byte("v"), 400), Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}, {Key: "h"}}},
		{OffsetDelta: 3, TimestampDelta64: -7, Key: []byte{}, Value: nil},
	}
}

func TestRecordsOfEveryCodec(t *testing.T) {
	want := fmt.Sprintf("100@1005 %q=%q [{\"h\" \"x\"} {\"h\" \"\"}]\n103@993 \"\"=\"\" []\n", "k", strings.Repeat("v", 400))
	for codec := range int16(5) {
		p := encode(t, sample(codec), records()...)
		got, err := decode(append(p, p...))
		if err != nil || got != want+want {
			t.Errorf("codec %d: %v\n%s\nwant twice\n%s", codec, err, got, want)
		}
	}
}

func TestTheHeaderIsReadWithoutTheRecords(t *testing.T) {
	const transactional, control = 0x10, 0x20
	b, rest, ok, err := recordbatch.Next(encode(t, sample(4|transactional|control), records()...))
	if err != nil || !ok || len(rest) != 0 {
		t.Fatal(ok, err, len(rest))
	}
	if b.Base != 100 || b.Last != 104 || b.LeaderEpoch != 3 || b.ProducerID != 9 || !b.Transactional || !b.Control || b.Count != 2 || b.Dense() {
		t.Errorf("got %+v", b)
	}
	if (b.Range() != kafkapos.Range{Start: 100, End: 105}) {
		t.Errorf("covers %s", b.Range())
	}
}

func TestTheBrokersClockStampsAllRecords(t *testing.T) {
	const appendTime = 0x08
	got, err := decode(encode(t, sample(appendTime), kmsg.Record{TimestampDelta64: 5}, kmsg.Record{OffsetDelta: 1}))
	if err != nil || strings.Count(got, "@2000 ") != 2 {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestSnappyOfTheJavaClients(t *testing.T) {
	plain := encode(t, sample(0), records()...)[61:]
	frame := []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01")
	for _, part := range [][]byte{plain[:100], plain[100:]} {
		block := compress(t, 2, part)
		frame = append(binary.BigEndian.AppendUint32(frame, uint32(len(block))), block...)
	}
	b := sample(2)
	b.Magic, b.NumRecords, b.Records = 2, 2, frame
	got, err := decode(seal(b))
	want, _ := decode(encode(t, sample(0), records()...))
	if err != nil || got != want {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestACutOffBatchIsNoBatch(t *testing.T) {
	p := encode(t, sample(3), records()...)
	for n := range p {
		if got, err := decode(p[:n]); err != nil || got != "" {
			t.Fatalf("first %d bytes: %q, %v", n, got, err)
		}
	}
}

func TestEveryFlippedBitShows(t *testing.T) {
	p := encode(t, sample(0), records()...)
	want, _ := decode(p)
	// Base offset, length and leader epoch are outside the checksum: the broker sets them.
	for i := 16 * 8; i < len(p)*8; i++ {
		q := bytes.Clone(p)
		q[i/8] ^= 1 << (i % 8)
		got, err := decode(q)
		if err == nil {
			t.Errorf("bit %d: no error, %q", i, got)
		}
		if got != "" && got != want {
			t.Errorf("bit %d: decoded %q", i, got)
		}
	}
}

func TestRefusals(t *testing.T) {
	old := encode(t, sample(0))
	old[16] = 1
	unknown := sample(5)
	after := sample(0)
	after.Magic, after.NumRecords, after.Records = 2, 1, append(binary.AppendVarint(nil, 6), 0, 0, 0, 1, 1, 0, 0)
	for name, tc := range map[string]struct {
		p    []byte
		want error
	}{
		"older format":             {old, fault.ErrUnsupported},
		"unknown codec":            {encode(t, unknown, records()...), fault.ErrUnsupported},
		"more than a batch may be": {encode(t, sample(4), kmsg.Record{Value: make([]byte, limit)}), fault.ErrUnsupported},
		"more, gzip":               {encode(t, sample(1), kmsg.Record{Value: make([]byte, limit)}), fault.ErrUnsupported},
		"more, snappy":             {encode(t, sample(2), kmsg.Record{Value: make([]byte, limit)}), fault.ErrUnsupported},
		"more, lz4":                {encode(t, sample(3), kmsg.Record{Value: make([]byte, limit)}), fault.ErrUnsupported},
		"bytes after the last":     {seal(after), fault.ErrCorrupt},
		"offsets that go back":     {encode(t, sample(0), kmsg.Record{OffsetDelta: 1}, kmsg.Record{OffsetDelta: 1}), fault.ErrCorrupt},
		"an offset beyond":         {encode(t, sample(0), kmsg.Record{OffsetDelta: 5}), fault.ErrCorrupt},
		"more records than room":   {encode(t, kmsg.RecordBatch{}, records()...), fault.ErrCorrupt},
	} {
		if _, err := decode(tc.p); !errors.Is(err, tc.want) {
			t.Errorf("%s: got %v, want %v", name, err, tc.want)
		}
	}
}

func TestNoAllocationPerRecord(t *testing.T) {
	var many []kmsg.Record
	for i := range int32(1000) {
		many = append(many, kmsg.Record{OffsetDelta: i, Key: []byte("key"), Value: []byte("value"), Headers: []kmsg.Header{{Key: "name", Value: []byte("x")}}})
	}
	s := sample(4)
	s.LastOffsetDelta = 999
	p := encode(t, s, many...)
	d := recordbatch.NewDecoder(limit)
	n := 0
	visit := func(*kafkalog.Record) error { n++; return nil }
	allocs := testing.AllocsPerRun(20, func() {
		b, _, _, err := recordbatch.Next(p)
		if err == nil {
			err = d.Records(&b, visit)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n == 0 || allocs > 5 {
		t.Errorf("%.0f allocations for 1000 records", allocs)
	}
}

// FuzzDecode: whatever the bytes, no panic, no record outside its batch, and offsets only go up.
func FuzzDecode(f *testing.F) {
	for codec := range int16(5) {
		f.Add(encode(f, sample(codec), records()...))
	}
	f.Add([]byte("\x82SNAPPY"))
	f.Fuzz(func(t *testing.T, p []byte) {
		d := recordbatch.NewDecoder(limit)
		for {
			b, rest, ok, err := recordbatch.Next(p)
			if err != nil || !ok {
				return
			}
			last := b.Base - 1
			_ = d.Records(&b, func(r *kafkalog.Record) error {
				if r.Offset <= last || !b.Range().Contains(r.Offset) {
					t.Fatalf("record at %d after %d in %s", r.Offset, last, b.Range())
				}
				last = r.Offset
				return nil
			})
			p = rest
		}
	})
}

// TestRandomDamage is the fuzz target's little sister: damage that keeps the checksum right.
func TestRandomDamage(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for codec := range int16(5) {
		p := encode(t, sample(codec), records()...)
		for range 2000 {
			q := bytes.Clone(p)
			for range 1 + rng.IntN(3) {
				q[21+rng.IntN(len(q)-21)] = byte(rng.Uint32())
			}
			binary.BigEndian.PutUint32(q[17:], crc32.Checksum(q[21:], crc32.MakeTable(crc32.Castagnoli)))
			if _, err := decode(q); err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) {
				t.Fatalf("codec %d: %v", codec, err)
			}
		}
	}
}

// BenchmarkRecords decodes batches of 1000 records of about 200 bytes.
func BenchmarkRecords(b *testing.B) {
	for codec, name := range map[int16]string{0: "none", 3: "lz4", 4: "zstd"} {
		b.Run(name, func(b *testing.B) {
			var many []kmsg.Record
			for i := range int32(1000) {
				value := fmt.Sprintf(`{"op":"u","after":{"id":%d,"name":"customer %d","balance":"%d.00"},"source":{"lsn":%d,"table":"customers","db":"inv"},"ts_ms":%d}`, i, i*7919, i*31, i*104729, i)
				many = append(many, kmsg.Record{OffsetDelta: i, Key: fmt.Appendf(nil, `{"id":%d}`, i), Value: []byte(value)})
			}
			s := sample(codec)
			s.LastOffsetDelta = 999
			p := encode(b, s, many...)
			d := recordbatch.NewDecoder(limit)
			b.ReportAllocs()
			for b.Loop() {
				batch, _, _, err := recordbatch.Next(p)
				if err == nil {
					err = batch.Verify()
				}
				if err == nil {
					err = d.Records(&batch, func(*kafkalog.Record) error { return nil })
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/record")
		})
	}
}
