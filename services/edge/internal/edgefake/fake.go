// Package edgefake plays the services behind the edge in tests: three gRPC servers over in-memory pipes, with one
// table, whose answers a test can change.
package edgefake

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
)

// What the fake's table is called.
const (
	Bucket    = "frazil"
	Namespace = "kafka"
	Table     = "orders"
	Epoch     = "abcdefghijklmnop"
)

// CheckKey signs the fake's object names.
func CheckKey() [16]byte { return [16]byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16} }

// Backend is the fake. Set the fields before the call that they are for; they are read under no lock.
type Backend struct {
	Catalog      catalogv1.CatalogServiceClient
	Dedup        dedupv1.DedupServiceClient
	Materializer materializerv1.MaterializerServiceClient

	// Fail is asked before every call: method name and key or table. nil: nothing fails.
	Fail func(ctx context.Context, method, what string) error
	// Cut shortens (negative) or lengthens bulk streams by that many bytes.
	Cut int
	// BreakAfter fails a bulk stream after that many bytes; 0 = never.
	BreakAfter int
	// Successor is the state epoch that loads name; empty: Epoch.
	Successor string
	// NoSizeHeader leaves the size header out.
	NoSizeHeader bool

	mu      sync.Mutex
	tables  []string
	objects map[string][]byte
	version int
	calls   map[string]int
	tagged  *catalogv1.UpdateTagsRequest
}

// New starts the fake's servers; they end with the test.
func New(tb testing.TB) *Backend {
	tb.Helper()
	b := &Backend{tables: []string{Table, "payments"}, objects: map[string][]byte{}, calls: map[string]int{}, version: 1}
	b.publish()
	g := grpc.NewServer(rpc.ServerOptions()...)
	catalogv1.RegisterCatalogServiceServer(g, &catalog{b: b})
	dedupv1.RegisterDedupServiceServer(g, &dedup{b: b})
	materializerv1.RegisterMaterializerServiceServer(g, &materializer{b: b})
	p := rpc.NewPipe()
	done := make(chan error, 1)
	go func() { done <- g.Serve(p.Listener()) }()
	cc, err := p.Dial("fake")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := cc.Close(); err != nil {
			tb.Error(err)
		}
		g.Stop()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			tb.Error(err)
		}
	})
	b.Catalog = catalogv1.NewCatalogServiceClient(cc)
	b.Dedup = dedupv1.NewDedupServiceClient(cc)
	b.Materializer = materializerv1.NewMaterializerServiceClient(cc)
	return b
}

// TableOf is the fake's table.
func TableOf() objectname.Table { return objectname.Table{Name: Table, Epoch: Epoch} }

// Location is the s3:// location of the table's current view.
func Location() string { return "s3://" + Bucket + "/" + TableOf().Location(objectname.Current) }

// Put adds an object.
func (b *Backend) Put(key string, data []byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.objects[key] = data
}

// DataFile adds a data file and answers its name.
func (b *Backend) DataFile(start int64, data []byte) objectname.DataFile {
	d := objectname.DataFile{
		Table: TableOf(), View: objectname.Current, Partition: 3,
		Range:   kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(start + 1000)},
		Edition: 1, BlockLog2: 10, FileSchema: "abcdefghij", Encoding: "klmnopqrst", Size: int64(len(data)),
	}.Signed(CheckKey())
	b.Put(d.Key(), data)
	return d
}

// DeleteFile adds a delete file and answers its key.
func (b *Backend) DeleteFile(d objectname.DataFile, dialect string, data []byte) string {
	key := objectname.Deletes{Data: d, Dialect: dialect, E: d.Range.End}.Key()
	b.Put(key, data)
	return key
}

// Advance publishes another version of the table.
func (b *Backend) Advance() {
	b.mu.Lock()
	b.version++
	b.mu.Unlock()
	b.publish()
}

// MetadataKey is the key of the current metadata JSON of a dialect.
func (b *Backend) MetadataKey(dialect string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.metadataKey(dialect)
}

func (b *Backend) metadataKey(dialect string) string {
	return objectname.Metadata{Table: TableOf(), View: objectname.Current, Dialect: dialect, File: strconv.Itoa(b.version) + "-0c1d.metadata.json"}.Key()
}

// ManifestListKey is the key of the current manifest list of a dialect.
func (b *Backend) ManifestListKey(dialect string) string {
	return objectname.Metadata{Table: TableOf(), View: objectname.Current, Dialect: dialect, File: "snap-7-aa.avro"}.Key()
}

func (b *Backend) publish() {
	for _, dialect := range []string{objectname.V2, objectname.V3} {
		list := b.ManifestListKey(dialect)
		b.Put(list, []byte("manifest list of "+dialect))
		b.Put(b.MetadataKey(dialect), fmt.Appendf(nil, `{"location":%q,"current-snapshot-id":7,"snapshots":[{"snapshot-id":7,"manifest-list":"s3://%s/%s"}]}`, Location(), Bucket, list))
	}
}

// Tagged is the last request of UpdateTags; nil: there was none.
func (b *Backend) Tagged() *catalogv1.UpdateTagsRequest {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.tagged
}

// Calls is how often a method was called.
func (b *Backend) Calls(method string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.calls[method]
}

func (b *Backend) enter(ctx context.Context, method, what string) error {
	b.mu.Lock()
	b.calls[method]++
	b.mu.Unlock()
	if b.Fail == nil {
		return nil
	}
	return b.Fail(ctx, method, what)
}

func (b *Backend) object(key string) ([]byte, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	data, ok := b.objects[key]
	if !ok {
		return nil, fmt.Errorf("find object: %w", fault.ErrNotFound)
	}
	return data, nil
}

func (b *Backend) hasTable(ns, table string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if ns != Namespace || !slices.Contains(b.tables, table) {
		return fmt.Errorf("find table: %w", fault.ErrNotFound)
	}
	return nil
}

// SetTables replaces the names in the namespace.
func (b *Backend) SetTables(names ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.tables = names
}

// Log is a logger that keeps its text.
func Log() (*slog.Logger, *strings.Builder) {
	var out strings.Builder
	return slog.New(slog.NewTextHandler(&syncWriter{out: &out}, &slog.HandlerOptions{Level: slog.LevelDebug})), &out
}

type syncWriter struct {
	mu  sync.Mutex
	out *strings.Builder
}

// Write adds a line.
func (w *syncWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p) //nolint:wrapcheck // a builder does not fail
}

type catalog struct {
	catalogv1.UnimplementedCatalogServiceServer
	b *Backend
}

// ListNamespaces implements the service.
func (c *catalog) ListNamespaces(ctx context.Context, _ *catalogv1.ListNamespacesRequest) (*catalogv1.ListNamespacesResponse, error) {
	if err := c.b.enter(ctx, "ListNamespaces", ""); err != nil {
		return nil, err
	}
	return &catalogv1.ListNamespacesResponse{Namespaces: []string{Namespace}}, nil
}

// ListTables implements the service.
func (c *catalog) ListTables(ctx context.Context, r *catalogv1.ListTablesRequest) (*catalogv1.ListTablesResponse, error) {
	if err := c.b.enter(ctx, "ListTables", r.GetNamespace()); err != nil {
		return nil, err
	}
	c.b.mu.Lock()
	defer c.b.mu.Unlock()
	resp := &catalogv1.ListTablesResponse{}
	for _, t := range c.b.tables {
		resp.Tables = append(resp.Tables, &catalogv1.TableName{Table: t, Topic: t})
	}
	return resp, nil
}

// TableExists implements the service.
func (c *catalog) TableExists(ctx context.Context, r *catalogv1.TableExistsRequest) (*catalogv1.TableExistsResponse, error) {
	if err := c.b.enter(ctx, "TableExists", r.GetTable()); err != nil {
		return nil, err
	}
	return &catalogv1.TableExistsResponse{Topic: r.GetTable()}, c.b.hasTable(r.GetNamespace(), r.GetTable())
}

// LoadTable implements the service: every table has the metadata of the fake's one, and its own location.
func (c *catalog) LoadTable(ctx context.Context, r *catalogv1.LoadTableRequest) (*catalogv1.LoadTableResponse, error) {
	if err := c.b.enter(ctx, "LoadTable", r.GetTable()); err != nil {
		return nil, err
	}
	if err := c.b.hasTable(r.GetNamespace(), r.GetTable()); err != nil {
		return nil, err
	}
	key := c.b.MetadataKey(r.GetWarehouse())
	data, err := c.b.object(key)
	if err != nil {
		return nil, err
	}
	resp := &catalogv1.LoadTableResponse{MetadataLocation: "s3://" + Bucket + "/" + key, StateEpoch: Epoch, Topic: r.GetTable()}
	if c.b.Successor != "" {
		resp.StateEpoch = c.b.Successor
	}
	resp.Location = "s3://" + Bucket + "/" + objectname.Table{Name: r.GetTable(), Epoch: Epoch}.Location(objectname.Current)
	if r.GetKnownMetadataLocation() != resp.GetMetadataLocation() {
		resp.MetadataJson = data
	}
	return resp, nil
}

// GetProgress implements the service: one partition is walked, one has nothing to walk, one has not begun.
func (c *catalog) GetProgress(ctx context.Context, r *catalogv1.GetProgressRequest) (*catalogv1.GetProgressResponse, error) {
	if err := c.b.enter(ctx, "GetProgress", r.GetTable()); err != nil {
		return nil, err
	}
	if err := c.b.hasTable(r.GetNamespace(), r.GetTable()); err != nil {
		return nil, err
	}
	return &catalogv1.GetProgressResponse{
		Table: r.GetTable(), Topic: "topic", StateEpoch: Epoch, Plan: "lazy", Partitions: 3, Walks: []*typesv1.WalkProgress{
			{Partition: 0, Start: 10, Frontier: 60, End: 110, Wanted: 20}, {Partition: 1, Frontier: 5, End: 5, Wanted: 5},
		},
	}, nil
}

// UpdateTags implements the service: it remembers the request and answers the metadata as it is.
func (c *catalog) UpdateTags(ctx context.Context, r *catalogv1.UpdateTagsRequest) (*catalogv1.UpdateTagsResponse, error) {
	if err := c.b.enter(ctx, "UpdateTags", r.GetTable()); err != nil {
		return nil, err
	}
	if err := c.b.hasTable(r.GetNamespace(), r.GetTable()); err != nil {
		return nil, err
	}
	c.b.mu.Lock()
	c.b.tagged = r
	c.b.mu.Unlock()
	key := c.b.MetadataKey(r.GetWarehouse())
	data, err := c.b.object(key)
	return &catalogv1.UpdateTagsResponse{MetadataLocation: "s3://" + Bucket + "/" + key, MetadataJson: data}, err
}

// ReadMetadata implements the service.
func (c *catalog) ReadMetadata(ctx context.Context, r *catalogv1.ReadMetadataRequest) (*catalogv1.ReadMetadataResponse, error) {
	if err := c.b.enter(ctx, "ReadMetadata", r.GetObjectKey()); err != nil {
		return nil, err
	}
	data, err := c.b.object(r.GetObjectKey())
	return &catalogv1.ReadMetadataResponse{Data: data, ContentType: "application/json"}, err
}

// ResolveEpoch implements the service.
func (c *catalog) ResolveEpoch(ctx context.Context, r *catalogv1.ResolveEpochRequest) (*catalogv1.ResolveEpochResponse, error) {
	if err := c.b.enter(ctx, "ResolveEpoch", r.GetStateEpoch()); err != nil {
		return nil, err
	}
	if r.GetStateEpoch() != Epoch {
		return nil, fmt.Errorf("find state epoch: %w", fault.ErrNotFound)
	}
	key := CheckKey()
	return &catalogv1.ResolveEpochResponse{Table: Table, Topic: Table, CheckKey: key[:]}, nil
}

type dedup struct {
	dedupv1.UnimplementedDedupServiceServer
	b *Backend
}

// ReadDeletes implements the service.
func (d *dedup) ReadDeletes(r *dedupv1.ReadDeletesRequest, s grpc.ServerStreamingServer[dedupv1.ReadDeletesResponse]) error {
	if err := d.b.enter(s.Context(), "ReadDeletes", r.GetObjectKey()); err != nil {
		return err
	}
	data, err := d.b.object(r.GetObjectKey())
	if err != nil {
		return err
	}
	if !d.b.NoSizeHeader {
		if err := s.SendHeader(metadata.Pairs("frazil-object-size", strconv.Itoa(len(data)))); err != nil {
			return fmt.Errorf("send header: %w", err)
		}
	}
	return d.b.send(data, r.GetOffset(), r.GetLength(), func(p []byte) error { return s.Send(&dedupv1.ReadDeletesResponse{Data: p}) })
}

type materializer struct {
	materializerv1.UnimplementedMaterializerServiceServer
	b *Backend
}

// ReadData implements the service.
func (m *materializer) ReadData(r *materializerv1.ReadDataRequest, s grpc.ServerStreamingServer[materializerv1.ReadDataResponse]) error {
	if err := m.b.enter(s.Context(), "ReadData", r.GetObjectKey()); err != nil {
		return err
	}
	data, err := m.b.object(r.GetObjectKey())
	if err != nil {
		return err
	}
	return m.b.send(data, r.GetOffset(), r.GetLength(), func(p []byte) error { return s.Send(&materializerv1.ReadDataResponse{Data: p}) })
}

// send streams a range in pieces of odd sizes.
func (b *Backend) send(data []byte, offset, length int64, send func([]byte) error) error {
	end := int64(len(data))
	if length < end-offset {
		end = offset + length
	}
	part := slices.Clone(data[min(offset, end):end])
	if length > 0 && b.Cut > 0 {
		part = append(part, make([]byte, b.Cut)...)
	}
	if length > 0 && b.Cut < 0 {
		part = part[:max(0, len(part)+b.Cut)]
	}
	sent := 0
	for piece := 1; len(part) > 0; piece = piece*3 + 1 {
		n := min(piece, len(part))
		if b.BreakAfter > 0 && sent+n > b.BreakAfter {
			return fmt.Errorf("make object: %w", fault.ErrUnavailable)
		}
		if err := send(part[:n]); err != nil {
			return err
		}
		part, sent = part[n:], sent+n
	}
	return nil
}
