// Package scan reads ranges of a log through the materializer: the key projection and what was recorded of the
// row groups.
package scan

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/keyrun"
	"github.com/frazil-io/frazil/libs/layout"
	"github.com/frazil-io/frazil/libs/rpc"
	"github.com/frazil-io/frazil/libs/supersede"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/dedup/internal/state"
)

// TailEvents is about how many offsets below the scanned end the fingerprint of a log covers.
const TailEvents = 16

// maxReasons bounds what is remembered of bad records; the first one of a range is the one that counts.
const maxReasons = 1024

// Request is a range to scan; it may meet several chunks.
type Request struct {
	Table     *typesv1.TableSpec
	Partition kafkapos.Partition
	Range     kafkapos.Range
	ChunkLog2 int
	// RowGroups are encoded and recorded, ascending; they may begin below the range.
	RowGroups []kafkapos.Range
	// Skip gives undecodable records the class Bad. Without it, the first one is an error.
	Skip bool
}

// Result is what a range holds.
type Result struct {
	// Events are the rows and deletes by ascending offset.
	Events []supersede.Event
	// Layouts are those of the range's parts in each chunk, ascending.
	Layouts []*layout.Layout
	// RowGroups are those of the request, ascending.
	RowGroups            []*typesv1.RowGroup
	Encoding, FileSchema string
	BaseBytes            int64
	LogStart             kafkapos.Offset
	// LeaderEpoch is the newest one under which anything of the range was written; -1 none, or unknown.
	LeaderEpoch kafkapos.LeaderEpoch
	// Tail is the fingerprint of the end of the range.
	Tail state.Tail
	// Scanned is the number of events read.
	Scanned int64
}

// Blocked is an event that stops its partition: a record that cannot be decoded, or a truncate event. Everything
// before it is good.
type Blocked struct {
	Partition kafkapos.Partition
	Offset    kafkapos.Offset
	Reason    string
}

// Error names the record and says why; it holds no key or row value.
func (b *Blocked) Error() string {
	return fmt.Sprintf("partition %d offset %d: %s", b.Partition, b.Offset, b.Reason)
}

// Unwrap makes it fault.ErrInvalid.
func (b *Blocked) Unwrap() error { return fault.ErrInvalid }

// Read scans a range. Errors: *Blocked for the first record that stops the partition; fault.ErrRetired when the
// log no longer holds the range; fault.ErrUnavailable; fault.ErrCorrupt when the stream breaks its contract.
func Read(ctx context.Context, client materializerv1.MaterializerServiceClient, req Request) (*Result, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // ends the stream when it is given up halfway
	msg := &materializerv1.ScanKeysRequest{
		Table: req.Table, Partition: int32(req.Partition), Start: int64(req.Range.Start), End: int64(req.Range.End),
	}
	for _, g := range req.RowGroups {
		msg.RowGroups = append(msg.RowGroups, &typesv1.OffsetRange{Start: int64(g.Start), End: int64(g.End)})
	}
	stream, err := client.ScanKeys(ctx, msg)
	if err != nil {
		return nil, fmt.Errorf("scan partition %d %s: %w", req.Partition, req.Range, rpc.Error(err))
	}
	c, err := newCollector(req)
	if err != nil {
		return nil, err
	}
	for {
		part, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("scan partition %d %s: %w", req.Partition, req.Range, rpc.Error(err))
		}
		if err := c.add(part); err != nil {
			return nil, fmt.Errorf("scan partition %d %s: %w", req.Partition, req.Range, err)
		}
	}
	return c.finish()
}

// Encoding is with what a table's files are encoded now, and under which name their columns go.
type Encoding struct {
	ID, FileSchema string
}

// ReadEncoding asks for the encoding of a table's files. Nothing of the log is read. Errors as of Read.
func ReadEncoding(ctx context.Context, client materializerv1.MaterializerServiceClient, table *typesv1.TableSpec, p kafkapos.Partition) (Encoding, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.ScanKeys(ctx, &materializerv1.ScanKeysRequest{Table: table, Partition: int32(p)})
	if err != nil {
		return Encoding{}, fmt.Errorf("ask for the encoding: %w", rpc.Error(err))
	}
	part, err := stream.Recv()
	if err != nil && !errors.Is(err, io.EOF) {
		return Encoding{}, fmt.Errorf("ask for the encoding: %w", rpc.Error(err))
	}
	h := part.GetHeader()
	if h == nil {
		return Encoding{}, fmt.Errorf("ask for the encoding: %w", broken("no header"))
	}
	return Encoding{ID: h.GetEncodingId(), FileSchema: h.GetFileSchema()}, nil
}

// collector takes the stream's pieces in their order.
type collector struct {
	req     Request
	builder *layout.Builder
	out     *Result
	next    kafkapos.Offset // no event may lie below
	header  bool
	trailer *materializerv1.ScanTrailer
	blocked *Blocked
	reasons map[kafkapos.Offset]string // of bad records
}

func newCollector(req Request) (*collector, error) {
	b, err := layout.NewBuilder(req.Range, req.ChunkLog2)
	if err != nil {
		return nil, err
	}
	return &collector{req: req, builder: b, out: &Result{}, next: req.Range.Start, reasons: map[kafkapos.Offset]string{}}, nil
}

func (c *collector) add(msg *materializerv1.ScanKeysResponse) error {
	if c.trailer != nil {
		return broken("a piece after the trailer")
	}
	switch part := msg.GetPart().(type) {
	case *materializerv1.ScanKeysResponse_Header:
		c.header = true
		c.out.Encoding, c.out.FileSchema = part.Header.GetEncodingId(), part.Header.GetFileSchema()
		c.out.BaseBytes = part.Header.GetFileBaseBytes()
	case *materializerv1.ScanKeysResponse_Keys:
		return c.keys(part.Keys)
	case *materializerv1.ScanKeysResponse_Bad:
		if len(c.reasons) < maxReasons {
			c.reasons[kafkapos.Offset(part.Bad.GetOffset())] = part.Bad.GetReason()
		}
	case *materializerv1.ScanKeysResponse_RowGroup:
		return c.rowGroup(part.RowGroup)
	case *materializerv1.ScanKeysResponse_Trailer:
		c.trailer = part.Trailer
	default:
		return broken("an unknown piece")
	}
	return nil
}

// block keeps the lowest record that stops the partition.
func (c *collector) block(off kafkapos.Offset, reason string) {
	if c.blocked == nil || off < c.blocked.Offset {
		c.blocked = &Blocked{Partition: c.req.Partition, Offset: off, Reason: reason}
	}
}

func (c *collector) keys(b *materializerv1.KeyBatch) error {
	n := len(b.GetClasses())
	if len(b.GetKeyHashes()) != n*keyrun.HashSize {
		return broken("%d classes with %d bytes of key hashes", n, len(b.GetKeyHashes()))
	}
	off, deltas := kafkapos.Offset(b.GetBaseOffset()), b.GetOffsets()
	for i := range n {
		delta, size := binary.Uvarint(deltas)
		if size <= 0 || delta > uint64(c.req.Range.End) {
			return broken("offset %d of a batch of %d", i, n)
		}
		deltas = deltas[size:]
		off += kafkapos.Offset(delta)
		if off < c.next {
			return broken("offset %d after %d", off, c.next-1)
		}
		c.next = off + 1
		if err := c.event(off, layout.Class(b.GetClasses()[i]), keyrun.Hash(b.GetKeyHashes()[i*keyrun.HashSize:])); err != nil {
			return err
		}
	}
	if len(deltas) > 0 {
		return broken("%d bytes of offsets left over", len(deltas))
	}
	for _, r := range b.GetNonrows() {
		rng := kafkapos.Range{Start: kafkapos.Offset(r.GetStart()), End: kafkapos.Offset(r.GetEnd())}
		if err := c.builder.AddNonRow(rng); err != nil {
			return broken("non-rows %s: %v", rng, err)
		}
	}
	return nil
}

func (c *collector) event(off kafkapos.Offset, class layout.Class, hash keyrun.Hash) error {
	switch class {
	case layout.Row, layout.Delete:
		c.out.Events = append(c.out.Events, supersede.Event{Offset: off, Hash: hash, Class: class})
	case layout.Bad:
		if !c.req.Skip {
			c.block(off, "the record cannot be decoded")
		}
	case layout.Truncate:
		c.block(off, "a truncate event; topics with truncate events are not served")
	default:
		return broken("offset %d of class %d", off, class)
	}
	c.out.Scanned++
	if err := c.builder.Add(off, class); err != nil {
		return broken("offset %d: %v", off, err)
	}
	return nil
}

func (c *collector) rowGroup(g *typesv1.RowGroup) error {
	i := len(c.out.RowGroups)
	if i >= len(c.req.RowGroups) {
		return broken("more row groups than the %d asked for", i)
	}
	want := c.req.RowGroups[i]
	if got := RangeOf(g); got != want {
		return broken("row group %s, want %s", got, want)
	}
	g = proto.CloneOf(g)
	g.EncodingId, g.FileSchema = c.out.Encoding, c.out.FileSchema
	c.out.RowGroups = append(c.out.RowGroups, g)
	return nil
}

func (c *collector) finish() (*Result, error) {
	if c.blocked != nil {
		if reason := c.reasons[c.blocked.Offset]; reason != "" {
			c.blocked.Reason = reason
		}
		return nil, fmt.Errorf("scan partition %d %s: %w", c.req.Partition, c.req.Range, c.blocked)
	}
	switch {
	case !c.header || c.trailer == nil:
		return nil, fmt.Errorf("scan partition %d %s: the stream ended early: %w", c.req.Partition, c.req.Range, fault.ErrUnavailable)
	case kafkapos.Offset(c.trailer.GetPosition()) != c.req.Range.End:
		return nil, fmt.Errorf("scan partition %d %s: %w", c.req.Partition, c.req.Range, broken("ended at %d", c.trailer.GetPosition()))
	case len(c.out.RowGroups) != len(c.req.RowGroups):
		return nil, fmt.Errorf("scan partition %d %s: %w", c.req.Partition, c.req.Range,
			broken("%d row groups, want %d", len(c.out.RowGroups), len(c.req.RowGroups)))
	}
	var err error
	if c.out.Layouts, err = c.builder.Layouts(); err != nil {
		return nil, fmt.Errorf("scan partition %d %s: %w", c.req.Partition, c.req.Range, broken("%v", err))
	}
	c.out.LogStart = kafkapos.Offset(c.trailer.GetLogStartOffset())
	c.out.LeaderEpoch = kafkapos.LeaderEpoch(c.trailer.GetLeaderEpoch())
	c.out.Tail = tail(c.out.Layouts[len(c.out.Layouts)-1], c.out.Events)
	return c.out, nil
}

// Of answers the row groups of one chunk.
func (r *Result) Of(chunk kafkapos.Range) []*typesv1.RowGroup {
	from := func(off kafkapos.Offset) int {
		i, _ := slices.BinarySearchFunc(r.RowGroups, off, func(g *typesv1.RowGroup, off kafkapos.Offset) int {
			return cmp.Compare(RangeOf(g).Start, off)
		})
		return i
	}
	return r.RowGroups[from(chunk.Start):from(chunk.End)]
}

// Lowest answers the bytes of the file of the lowest chunk, and over how many offsets it is.
func (r *Result) Lowest(chunkLog2 int) (bytes, offsets int64) {
	l := r.Layouts[0]
	return FileSize(r.BaseBytes, r.Of(layout.Chunk(l.ChunkStart(), chunkLog2))), l.Range().Len()
}

// tail is the fingerprint of the end of a scanned range: classes and key hashes of the last offsets of its last chunk.
func tail(l *layout.Layout, events []supersede.Event) state.Tail {
	rng := l.Range()
	t := state.Tail{From: max(rng.Start, rng.End-TailEvents)}
	first := len(events)
	for first > 0 && events[first-1].Offset >= t.From {
		first--
	}
	h := sha256.New()
	for off := t.From; off < rng.End; off++ {
		class, _ := l.Class(off)
		h.Write([]byte{byte(class)})
		if first < len(events) && events[first].Offset == off {
			h.Write(events[first].Hash[:])
			first++
		}
	}
	copy(t.Sum[:], h.Sum(nil))
	return t
}

// RangeOf is a row group's range.
func RangeOf(g *typesv1.RowGroup) kafkapos.Range {
	return kafkapos.Range{Start: kafkapos.Offset(g.GetRange().GetStart()), End: kafkapos.Offset(g.GetRange().GetEnd())}
}

// FileSize is the declared size of a file: what every file of its schema has, and what its row groups add. One
// without rows adds nothing.
func FileSize(base int64, groups []*typesv1.RowGroup) int64 {
	for _, g := range groups {
		if g.GetRows() > 0 {
			base += g.GetSizeBytes() + g.GetTailBytes()
		}
	}
	return base
}

func broken(format string, args ...any) error {
	return fmt.Errorf("broken key stream: "+format+": %w", append(args, fault.ErrCorrupt)...)
}
