// Package object finds and streams what the bucket holds. Nothing is stored here: metadata comes from the catalog,
// data files from a materializer, delete files from dedup. The key alone says which, and its check says whether
// the name was ever issued.
package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/lru"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// SizeHeader is the gRPC header in which ReadDeletes says how long the whole object is, decimal bytes.
const SizeHeader = "frazil-object-size"

const (
	epochCache = 4096
	sizeCache  = 1 << 16
	// An epoch may be replaced at any time. Where a load here names another one it is asked for anew at once, elsewhere
	// after this: until then its files read as they always did.
	knownTTL   = 30 * time.Second
	unknownTTL = 2 * time.Second
)

// Info is what HEAD answers of an object.
type Info struct {
	Key         string
	Size        int64 // bytes
	ETag        string
	ContentType string

	object objectname.Object
	data   []byte // of a metadata object
}

// ETag is the entity tag of a key, with its quotes. Same key, same bytes: so the key identifies them, before they
// exist and on every edge. The dash keeps clients from taking it for an MD5.
func ETag(key string) string {
	sum := sha256.Sum256([]byte(key))
	return `"fz1-` + hex.EncodeToString(sum[:16]) + `"`
}

// Store answers objects. Safe for concurrent use.
type Store struct {
	catalog catalogv1.CatalogServiceClient
	dedup   dedupv1.DedupServiceClient
	data    materializerv1.MaterializerServiceClient
	now     func() time.Time
	epochs  *lru.Cache[string, epoch]
	present *lru.Cache[string, string] // table -> the state epoch that a load named last
	sizes   *lru.Cache[string, int64]
}

type epoch struct {
	table   string
	key     [16]byte
	err     error
	expires time.Time
}

// NewStore makes a store over its three sources.
func NewStore(catalog catalogv1.CatalogServiceClient, dedup dedupv1.DedupServiceClient, data materializerv1.MaterializerServiceClient, now func() time.Time) *Store {
	return &Store{
		catalog: catalog, dedup: dedup, data: data, now: now,
		epochs: lru.New[string, epoch](epochCache), present: lru.New[string, string](epochCache), sizes: lru.New[string, int64](sizeCache),
	}
}

// Stat finds an object. It starts no work on data files. fault.ErrNotFound: such a name was never issued.
// fault.ErrRetired: it is no longer served, and why.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	obj, err := objectname.Parse(key)
	if err != nil {
		return Info{}, err
	}
	info := Info{Key: key, ETag: ETag(key), object: obj}
	switch o := obj.(type) {
	case objectname.Metadata:
		resp, err := s.catalog.ReadMetadata(ctx, &catalogv1.ReadMetadataRequest{ObjectKey: key})
		if err != nil {
			return Info{}, rpc.Error(err)
		}
		info.data, info.Size, info.ContentType = resp.GetData(), int64(len(resp.GetData())), resp.GetContentType()
		if info.ContentType == "" {
			info.ContentType = "application/octet-stream"
		}
	case objectname.DataFile:
		if err := s.verify(ctx, o); err != nil {
			return Info{}, err
		}
		info.Size, info.ContentType = o.Size, "application/vnd.apache.parquet"
	case objectname.Deletes:
		if err := s.verify(ctx, o.Data); err != nil {
			return Info{}, err
		}
		info.ContentType = "application/vnd.apache.parquet"
		if o.Dialect == objectname.V3 {
			info.ContentType = "application/octet-stream"
		}
		if info.Size, err = s.deletesSize(ctx, key); err != nil {
			return Info{}, err
		}
	}
	return info, nil
}

// verify checks that the name of a data file was issued.
func (s *Store) verify(ctx context.Context, d objectname.DataFile) error {
	e, err := s.epoch(ctx, d.Table.Epoch)
	if err != nil {
		return err
	}
	if e.table != d.Table.Name || !d.Verify(e.key) {
		return fmt.Errorf("check object key: %w: not a name that is issued here", fault.ErrNotFound)
	}
	return nil
}

func (s *Store) epoch(ctx context.Context, id string) (epoch, error) {
	now := s.now()
	if e, ok := s.epochs.Get(id); ok && now.Before(e.expires) && !s.replaced(e.table, id) {
		return e, e.err
	}
	resp, err := s.catalog.ResolveEpoch(ctx, &catalogv1.ResolveEpochRequest{StateEpoch: id})
	if err = rpc.Error(err); err != nil {
		err = fmt.Errorf("resolve state epoch: %w", err)
		if errors.Is(err, fault.ErrNotFound) || errors.Is(err, fault.ErrRetired) {
			s.epochs.Add(id, epoch{err: err, expires: now.Add(unknownTTL)}, 1)
		}
		return epoch{}, err
	}
	e := epoch{table: resp.GetTable(), expires: now.Add(knownTTL)}
	if len(resp.GetCheckKey()) != len(e.key) {
		return epoch{}, fmt.Errorf("resolve state epoch: check key of %d bytes: %w", len(resp.GetCheckKey()), fault.ErrCorrupt)
	}
	copy(e.key[:], resp.GetCheckKey())
	s.epochs.Add(id, e, 1)
	return e, nil
}

// Loaded notes which state epoch a load of a table named.
func (s *Store) Loaded(table, epoch string) { s.present.Add(table, epoch, 1) }

// replaced says whether a load has named another state epoch of the table.
func (s *Store) replaced(table, id string) bool {
	present, ok := s.present.Get(table)
	return ok && present != id
}

// deletesSize asks dedup for the length of a delete file. The name does not hold it.
func (s *Store) deletesSize(ctx context.Context, key string) (int64, error) {
	if n, ok := s.sizes.Get(key); ok {
		return n, nil
	}
	n, err := s.askSize(ctx, key)
	if err != nil {
		return 0, err
	}
	s.sizes.Add(key, n, 1)
	return n, nil
}

func (s *Store) askSize(ctx context.Context, key string) (int64, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := s.dedup.ReadDeletes(ctx, &dedupv1.ReadDeletesRequest{ObjectKey: key}, rpc.BulkCallOption())
	if err != nil {
		return 0, rpc.Error(err)
	}
	head, err := stream.Header()
	if err != nil {
		return 0, rpc.Error(err)
	}
	if values := head.Get(SizeHeader); len(values) == 1 {
		n, err := strconv.ParseInt(values[0], 10, 64)
		if err != nil || n < 0 {
			return 0, fmt.Errorf("read size of delete file: %q: %w", values[0], fault.ErrCorrupt)
		}
		return n, nil
	}
	// No header: either the call failed, or its server does not send it and the bytes must be counted.
	var f rpc.Frame
	if err := stream.RecvMsg(&f); err != nil && !errors.Is(err, io.EOF) {
		return 0, rpc.Error(err)
	}
	f.Free()
	return s.countDeletes(ctx, key)
}

func (s *Store) countDeletes(ctx context.Context, key string) (int64, error) {
	stream, err := s.dedup.ReadDeletes(ctx, &dedupv1.ReadDeletesRequest{ObjectKey: key, Length: math.MaxInt64}, rpc.BulkCallOption())
	if err != nil {
		return 0, rpc.Error(err)
	}
	var n int64
	var f rpc.Frame
	defer f.Free()
	for {
		err := stream.RecvMsg(&f)
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return 0, rpc.Error(err)
		}
		n += int64(f.Len())
	}
}

// Open starts reading [offset, offset+length) of an object, which must lie inside it and not be empty. When it
// returns, the first bytes are there: nothing can be refused any more. The stream lives as long as ctx or until
// Close, whichever is first; the work behind it goes on without either.
func (s *Store) Open(ctx context.Context, info Info, offset, length int64) (*Reader, error) {
	if offset < 0 || length <= 0 || length > info.Size-offset {
		return nil, fmt.Errorf("open object: range [%d,%d) of %d bytes: %w", offset, offset+length, info.Size, fault.ErrInvalid)
	}
	if info.data != nil {
		return &Reader{data: info.data[offset : offset+length], left: length}, nil
	}
	open := func(n int64) (grpc.ClientStream, context.CancelFunc, error) {
		ctx, cancel := context.WithCancel(ctx)
		stream, err := s.stream(ctx, info, offset+length-n, n)
		if err != nil {
			cancel()
		}
		return stream, cancel, err
	}
	stream, cancel, err := open(length)
	if err != nil {
		return nil, rpc.Error(err)
	}
	// What is refused before the first piece is the caller's to hear: resuming begins with it.
	r := &Reader{stream: stream, cancel: cancel, left: length, open: open, resumed: maxResumed}
	for r.frame.Len() == 0 {
		if err := r.next(); err != nil {
			r.Close()
			return nil, err
		}
	}
	return r, nil
}

func (s *Store) stream(ctx context.Context, info Info, offset, length int64) (grpc.ClientStream, error) {
	if _, ok := info.object.(objectname.DataFile); ok {
		return s.data.ReadData(ctx, &materializerv1.ReadDataRequest{ObjectKey: info.Key, Offset: offset, Length: length}, rpc.BulkCallOption())
	}
	return s.dedup.ReadDeletes(ctx, &dedupv1.ReadDeletesRequest{ObjectKey: info.Key, Offset: offset, Length: length}, rpc.BulkCallOption())
}
