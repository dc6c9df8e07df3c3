package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/mem"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// breaking is a materializer whose streams end with an error after some bytes.
type breaking struct {
	materializerv1.MaterializerServiceClient
	data  []byte
	after []int // bytes that each stream sends before it breaks; those beyond the list do not break
	with  error
	opens []int64 // offsets
}

type breakingStream struct {
	grpc.ServerStreamingClient[materializerv1.ReadDataResponse]
	part []byte
	left int // bytes until it breaks; negative: never
	with error
}

func (b *breaking) ReadData(
	_ context.Context, r *materializerv1.ReadDataRequest, _ ...grpc.CallOption,
) (grpc.ServerStreamingClient[materializerv1.ReadDataResponse], error) {
	s := &breakingStream{part: b.data[r.GetOffset() : r.GetOffset()+r.GetLength()], left: -1, with: b.with}
	if n := len(b.opens); n < len(b.after) {
		s.left = b.after[n]
	}
	b.opens = append(b.opens, r.GetOffset())
	return s, nil
}

func (s *breakingStream) RecvMsg(m any) error {
	switch {
	case s.left == 0:
		return s.with
	case len(s.part) == 0:
		return io.EOF
	}
	n := min(3, len(s.part))
	if s.left > 0 {
		n = min(n, s.left)
		s.left -= n
	}
	*m.(*rpc.Frame) = *rpc.NewFrame(mem.SliceBuffer(s.part[:n]))
	s.part = s.part[n:]
	return nil
}

func TestAStreamThatBreaksGoesOnElsewhere(t *testing.T) {
	gone := fmt.Errorf("the replica went away: %w", fault.ErrUnavailable)
	data := []byte("0123456789abcdefghijklmnopqrstuvwxyzABCD")
	for name, c := range map[string]struct {
		after []int
		with  error
		opens string
		err   error // of Open or Copy; nil: the range comes whole
	}{
		"once":                   {[]int{7}, gone, "[5 12]", nil},
		"at the last byte":       {[]int{29}, gone, "[5 34]", nil},
		"an end that is early":   {[]int{4}, io.EOF, "[5 9]", nil},
		"again and again":        {[]int{1, 1, 1, 1, 1, 1, 1}, gone, "[5 6 7 8 9 10 11 12]", nil},
		"never a piece more":     {[]int{4, 0, 0, 0, 0, 0}, gone, "[5 9 9 9]", fault.ErrUnavailable},
		"before the first piece": {[]int{0}, gone, "[5]", fault.ErrUnavailable},
		"with an answer":         {[]int{7}, fmt.Errorf("damaged: %w", fault.ErrCorrupt), "[5]", fault.ErrCorrupt},
	} {
		t.Run(name, func(t *testing.T) {
			source := &breaking{data: data, after: c.after, with: c.with}
			s := NewStore(nil, nil, source, nil)
			info := Info{Key: "a data file", Size: int64(len(data)), object: objectname.DataFile{}}
			var out bytes.Buffer
			r, err := s.Open(t.Context(), info, 5, 30)
			if err == nil {
				_, err = r.Copy(&out, func() error { return nil })
				r.Close()
			}
			if !errors.Is(err, c.err) || c.err == nil && out.String() != string(data[5:35]) {
				t.Errorf("%q, %v, want %v", out.String(), err, c.err)
			}
			if got := fmt.Sprint(source.opens); got != c.opens {
				t.Errorf("opened at %s, want %s", got, c.opens)
			}
		})
	}
}
