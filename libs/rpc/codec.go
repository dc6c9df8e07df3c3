package rpc

import (
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/mem"
	pb "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// CodecName is the content-subtype of the bulk streams.
const CodecName = "frazilraw"

// maxMessage bounds one message of either direction, bytes. The largest are metadata objects; bulk streams are
// sent in pieces far below it.
const maxMessage = 256 << 20

// BulkCallOption selects the bulk codec for one call. The server must have been made with ServerOptions.
func BulkCallOption() grpc.CallOption { return grpc.ForceCodecV2(codec{proto: protoCodec()}) }

// ServerOptions are the options of every Frazil server: the bulk codec, kinds as codes, message limits, a Pool. The
// codec is handed over, not registered: grpc's registry is global.
func ServerOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.ForceServerCodecV2(codec{proto: protoCodec()}),
		grpc.ChainUnaryInterceptor(UnaryServer),
		grpc.ChainStreamInterceptor(StreamServer),
		grpc.MaxRecvMsgSize(maxMessage),
		grpc.MaxSendMsgSize(maxMessage),
		experimental.BufferPool(NewPool()),
	}
}

// DialOptions are the options of every Frazil client beside its transport credentials.
func DialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(UnaryClient),
		grpc.WithChainStreamInterceptor(StreamClient),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage), grpc.MaxCallSendMsgSize(maxMessage)),
		experimental.WithBufferPool(NewPool()),
	}
}

func protoCodec() encoding.CodecV2 { return encoding.GetCodecV2(proto.Name) }

// codec sends a *Frame, and a message whose only field is `bytes data`, as its bytes and nothing else; every other
// message travels as protobuf, so that one server can use it for all its methods.
type codec struct {
	proto encoding.CodecV2
}

func (codec) Name() string { return CodecName }

// Marshal does not copy. The bytes of a message must not change until the stream is done with them; those of a
// Frame belong to the stream from here on.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if f, ok := v.(*Frame); ok {
		bufs := f.bufs
		f.bufs = nil
		return bufs, nil
	}
	if m, fd := dataField(v); fd != nil {
		if data := m.Get(fd).Bytes(); len(data) > 0 {
			return mem.BufferSlice{mem.SliceBuffer(data)}, nil
		}
		return nil, nil
	}
	return c.proto.Marshal(v)
}

// Unmarshal of a Frame keeps the received buffers. Of a message, data aliases the received buffer when there is
// just one (it then belongs to the message for good and never returns to its pool), else it is joined once.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	if f, ok := v.(*Frame); ok {
		f.Free()
		data.Ref()
		f.bufs = append(f.bufs, data...)
		return nil
	}
	m, fd := dataField(v)
	if fd == nil {
		return c.proto.Unmarshal(data, v)
	}
	m.Set(fd, protoreflect.ValueOfBytes(contiguous(data)))
	return nil
}

func contiguous(data mem.BufferSlice) []byte {
	if len(data) == 1 {
		data.Ref()
		return data[0].ReadOnlyData()
	}
	return data.Materialize()
}

// dataField answers the field of a message that has only `bytes data`, nil for any other message.
func dataField(v any) (protoreflect.Message, protoreflect.FieldDescriptor) {
	msg, ok := v.(pb.Message)
	if !ok {
		return nil, nil
	}
	m := msg.ProtoReflect()
	fields := m.Descriptor().Fields()
	if fields.Len() != 1 {
		return nil, nil
	}
	fd := fields.Get(0)
	if fd.Name() != "data" || fd.Kind() != protoreflect.BytesKind || fd.IsList() {
		return nil, nil
	}
	return m, fd
}

// Frame is one piece of a bulk stream in pooled memory. Hand it to SendMsg or RecvMsg in place of the generated
// message to move bytes without copying or allocating. The zero Frame is empty. Not safe for concurrent use.
type Frame struct {
	bufs mem.BufferSlice
}

// NewFrame takes over one reference of each buffer.
func NewFrame(bufs ...mem.Buffer) *Frame { return &Frame{bufs: bufs} }

// Len is the number of bytes held.
func (f *Frame) Len() int { return f.bufs.Len() }

// WriteTo writes the bytes held and keeps them: Free gives them back.
func (f *Frame) WriteTo(w io.Writer) (int64, error) {
	var written int64
	for _, b := range f.bufs {
		n, err := w.Write(b.ReadOnlyData())
		written += int64(n)
		if err != nil {
			return written, fmt.Errorf("write frame: %w", err)
		}
	}
	return written, nil
}

// Free gives the buffers back. The frame is empty afterwards and can receive again.
func (f *Frame) Free() {
	f.bufs.Free()
	clear(f.bufs)
	f.bufs = f.bufs[:0]
}
