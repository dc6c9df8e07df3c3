package catalogs_test

import (
	"bytes"
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/icebergscan/scantest"
	"github.com/frazil-io/frazil/tools/internal/catalogs"
)

func flags(t *testing.T, args ...string) *catalogs.Flags {
	t.Helper()
	set := flag.NewFlagSet("x", flag.ContinueOnError)
	set.SetOutput(io.Discard)
	var f catalogs.Flags
	f.Register(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return &f
}

func orders(t *testing.T, version int) *scantest.Table {
	t.Helper()
	table := scantest.New(t, version,
		iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true}),
		iceberg.NewPartitionSpecID(0),
		iceberg.NewPartitionSpecID(1, iceberg.PartitionField{SourceIDs: []int{1}, FieldID: 1000, Name: "b", Transform: iceberg.BucketTransform{NumBuckets: 4}}))
	table.Location = "file://" + t.TempDir()
	table.Commit("append", nil, []scantest.File{{Path: "a", Records: 10, Spec: 1, Partition: map[int]any{1000: int32(2)}}})
	table.Metadata()
	table.Lake.WriteFiles(t)
	return table
}

// expectOneFile loads the table and streams its only entry.
func expectOneFile(t *testing.T, f *catalogs.Flags, name string) {
	t.Helper()
	cat, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	table, err := cat.Load(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	head, err := table.Meta.Head("main")
	if err != nil {
		t.Fatal(err)
	}
	scan, err := icebergscan.Open(t.Context(), table.Store, table.Meta, head)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for e, err := range scan.Entries(t.Context(), icebergscan.DataManifest, icebergscan.Want{}) {
		if err != nil {
			t.Fatal(err)
		}
		spec, err := table.Meta.Spec(e.SpecID)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s %s", e.Path, table.Meta.PartitionPath(spec, e.Partition)))
	}
	if len(got) != 1 || got[0] != "a b=2" {
		t.Errorf("got %q", got)
	}
}

// server is the least REST catalog: one table, a bearer token, a client with a secret.
func server(t *testing.T, table *scantest.Table) string {
	t.Helper()
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	guarded := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer good" {
				w.WriteHeader(http.StatusUnauthorized)
				answer(w, map[string]any{"error": map[string]any{"message": "who are you", "type": "NotAuthorizedException", "code": 401}})
				return
			}
			h(w, r)
		}
	}
	mux.HandleFunc("POST /v1/oauth/tokens", func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("client_id") != "me" || r.FormValue("client_secret") != "secret" {
			w.WriteHeader(http.StatusUnauthorized)
			answer(w, map[string]any{"error": "invalid_client"})
			return
		}
		answer(w, map[string]any{"access_token": "good", "token_type": "bearer", "expires_in": 3600})
	})
	mux.HandleFunc("GET /v1/config", guarded(func(w http.ResponseWriter, r *http.Request) {
		answer(w, map[string]any{"defaults": map[string]string{}, "overrides": map[string]string{"prefix": r.URL.Query().Get("warehouse")}})
	}))
	mux.HandleFunc("GET /v1/wh/namespaces/{ns}/tables/orders", guarded(func(w http.ResponseWriter, r *http.Request) {
		if ns := r.PathValue("ns"); ns != "db\x1fsub" {
			t.Errorf("namespace %q", ns)
		}
		answer(w, map[string]any{"metadata-location": table.MetadataLocation(), "metadata": json.RawMessage(table.Metadata()), "config": map[string]string{}})
	}))
	mux.HandleFunc("/", guarded(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		answer(w, map[string]any{"error": map[string]any{"message": "no", "type": "NoSuchTableException", "code": 404}})
	}))
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestREST(t *testing.T) {
	for version := 2; version <= 3; version++ {
		uri := server(t, orders(t, version))
		secret := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(secret, []byte("good\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "catalog.yaml")
		if err := os.WriteFile(file, []byte("uri: "+uri+"\nwarehouse: wrong\ncredential: me:secret\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{
			{"--catalog-uri", uri, "--token", "good", "--warehouse", "wh"},
			{"--catalog-uri", uri, "--token", "@" + secret, "--warehouse", "wh"},
			{"--catalog-uri", uri, "--credential", "me:secret", "--warehouse", "wh"},
			{"--config", file, "--warehouse", "wh"},
		} {
			expectOneFile(t, flags(t, args...), "db.sub.orders")
		}
	}
}

func TestErrorsOfTheCatalogHaveKinds(t *testing.T) {
	uri := server(t, orders(t, 2))
	if _, err := flags(t, "--catalog-uri", uri, "--token", "bad", "--warehouse", "wh").Open(t.Context()); !errors.Is(err, fault.ErrUnauthenticated) {
		t.Errorf("a bad token: %v", err)
	}
	cat, err := flags(t, "--catalog-uri", uri, "--token", "good", "--warehouse", "wh").Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cat.Load(t.Context(), "db.nothing"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("no such table: %v", err)
	}
	for _, name := range []string{"orders", "db.", ".orders", "db..orders", ""} {
		if _, err := cat.Load(t.Context(), name); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestSQL(t *testing.T) {
	table := orders(t, 2)
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	// As PyIceberg and Iceberg Java make it.
	for _, statement := range []string{
		`CREATE TABLE iceberg_tables (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, table_name VARCHAR(255) NOT NULL,
			metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))`,
		`INSERT INTO iceberg_tables VALUES ('mine', 'db.sub', 'orders', '` + table.MetadataLocation() + `', NULL, 'TABLE')`,
		`INSERT INTO iceberg_tables VALUES ('other', 'db.sub', 'orders', 'file:///nowhere', NULL, 'TABLE')`,
	} {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	expectOneFile(t, flags(t, "--catalog-uri", "sqlite:///"+path, "--catalog-name", "mine"), "db.sub.orders")
	cat, err := flags(t, "--catalog-uri", "sqlite:///"+path).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	if _, err := cat.Load(t.Context(), "db.sub.orders"); !errors.Is(err, fault.ErrNotFound) || !strings.Contains(err.Error(), "--catalog-name") {
		t.Errorf("another catalog in the same database: %v", err)
	}

	// A database that is not there is not made.
	empty := filepath.Join(t.TempDir(), "empty.db")
	none, err := flags(t, "--catalog-uri", "sqlite:///"+empty).Open(t.Context())
	if err == nil {
		_, err = none.Load(t.Context(), "db.orders")
	}
	if err == nil {
		t.Error("a table out of nothing")
	}
	if _, err := os.Stat(empty); err == nil {
		t.Error("the tool made a database")
	}
}

func TestGlue(t *testing.T) {
	table := orders(t, 2)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct{ CatalogId, DatabaseName, Name string } //nolint:revive // the names of the API
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		if r.Header.Get("X-Amz-Target") != "AWSGlue.GetTable" || !strings.Contains(r.Header.Get("Authorization"), "Credential=AKID/") ||
			!strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/glue/aws4_request") || body.CatalogId != "123" {
			t.Errorf("request %v %+v", r.Header, body)
		}
		w.Header().Set("Content-Type", "application/x-amz-json-1.1")
		switch body.Name {
		case "orders":
			fmt.Fprintf(w, `{"Table":{"Name":"orders","Parameters":{"table_type":"ICEBERG","metadata_location":%q}}}`, table.MetadataLocation())
		case "hive":
			fmt.Fprint(w, `{"Table":{"Name":"hive","Parameters":{"EXTERNAL":"TRUE"}}}`)
		default:
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprint(w, `{"__type":"EntityNotFoundException","Message":"Entity Not Found"}`)
		}
	}))
	defer s.Close()
	f := flags(t, "--catalog-type", "glue", "--prop", "glue.endpoint="+s.URL, "--prop", "glue.region=eu-west-1", "--prop", "glue.access-key-id=AKID",
		"--prop", "glue.secret-access-key=x", "--prop", "glue.id=123")
	expectOneFile(t, f, "db.orders")
	cat, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, kind := range map[string]error{"db.none": fault.ErrNotFound, "db.hive": fault.ErrInvalid, "db.sub.orders": fault.ErrInvalid} {
		if _, err := cat.Load(t.Context(), name); !errors.Is(err, kind) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A REST catalog behind SigV4 that vends credentials, and an S3 store that takes them: the endpoint of the config is
// overridden by the credentials of the longest prefix.
func TestSigV4VendedCredentialsAndS3(t *testing.T) {
	table := scantest.New(t, 2, iceberg.NewSchema(0, iceberg.NestedField{ID: 1, Name: "id", Type: iceberg.PrimitiveTypes.Int64, Required: true}), iceberg.NewPartitionSpecID(0))
	table.Location = "s3://lake/db/orders"
	table.Commit("append", nil, []scantest.File{{Path: "a", Records: 10}})
	metadata := table.Metadata()
	var asked requests
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "Credential=VENDED/") {
			t.Errorf("store: %s", r.Header.Get("Authorization"))
		}
		asked.add(r.Method + " " + r.Header.Get("Range"))
		body, ok := table.Lake.Objects["s3:/"+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `<Error><Code>NoSuchKey</Code></Error>`)
			return
		}
		http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(body))
	}))
	defer store.Close()
	catalog := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/s3tables/aws4_request") || r.Header.Get("X-Tenant") != "me" {
			t.Errorf("catalog: %v", r.Header)
		}
		if r.URL.Path == "/iceberg/v1/config" {
			fmt.Fprint(w, `{"defaults":{},"overrides":{"prefix":"arn:aws/x"}}`)
			return
		}
		if r.URL.EscapedPath() != "/iceberg/v1/arn:aws/x/namespaces/db/tables/orders" {
			t.Errorf("path %s", r.URL.EscapedPath())
		}
		answer := map[string]any{"metadata-location": table.MetadataLocation(), "metadata": json.RawMessage(metadata),
			"config": map[string]string{"s3.endpoint": "http://127.0.0.1:1", "s3.region": "eu-west-1"},
			"storage-credentials": []any{
				map[string]any{"prefix": "s3://lake/db/", "config": map[string]string{"s3.endpoint": store.URL, "s3.access-key-id": "VENDED", "s3.secret-access-key": "x"}},
				map[string]any{"prefix": "s3://lake/", "config": map[string]string{"s3.access-key-id": "WRONG", "s3.secret-access-key": "x"}},
			}}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer catalog.Close()
	f := flags(t, "--catalog-uri", catalog.URL+"/iceberg/", "--prop", "rest.sigv4-enabled=true", "--prop", "rest.signing-region=eu-west-1", "--prop", "rest.signing-name=s3tables",
		"--prop", "rest.access-key-id=AKID", "--prop", "rest.secret-access-key=x", "--prop", "header.X-Tenant=me")
	cat, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := cat.Load(t.Context(), "db.orders")
	if err != nil {
		t.Fatal(err)
	}
	head, err := loaded.Meta.Head("main")
	if err != nil {
		t.Fatal(err)
	}
	scan, err := icebergscan.Open(t.Context(), loaded.Store, loaded.Meta, head)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range scan.Entries(t.Context(), icebergscan.DataManifest, icebergscan.Want{}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	if n != 1 {
		t.Errorf("%d entries", n)
	}
	for _, nothing := range []string{"s3://lake/nothing", "s3://lake/data//nothing"} {
		if _, err := loaded.Store.Open(t.Context(), nothing); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("open of nothing: %v", err)
		}
	}
	expectKeyThatIsNoPath(t, loaded.Store, table.Lake.Objects)
	expectRangesOnly(t, loaded.Store, &asked)
}

// requests are those that a server got.
type requests struct {
	mu  sync.Mutex
	all []string
}

func (r *requests) add(one string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, one)
}

// take answers them and begins anew.
func (r *requests) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

// A file that is read at offsets is not downloaded whole beside, and one of another bucket is not looked for in this.
func expectRangesOnly(t *testing.T, store *catalogs.Store, asked *requests) {
	t.Helper()
	for _, location := range []string{"s3://lake/data/x", "s3://lake/data//x"} {
		asked.take()
		f, err := store.File(t.Context(), location)
		if err != nil {
			t.Fatal(err)
		}
		size, err := f.Size()
		if err != nil || size < 7 {
			t.Errorf("%s: size %d, %v", location, size, err)
		}
		at := make([]byte, 2)
		if n, err := f.ReadAt(at, size-2); n != 2 || err != nil {
			t.Errorf("%s: %q, %v", location, at[:n], err)
		}
		if n, err := f.ReadAt(at, size-1); n != 1 || err != io.EOF {
			t.Errorf("%s, at the end: %q, %v", location, at[:n], err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		want := []string{"HEAD ", fmt.Sprintf("GET bytes=%d-%d", size-2, size-1), fmt.Sprintf("GET bytes=%d-%d", size-1, size)}
		if got := asked.take(); !slices.Equal(got, want) {
			t.Errorf("%s: asked for %q", location, got)
		}
	}
	for _, nothing := range []string{"s3://lake/nothing", "s3://lake/data", "s3://lake/data//nothing"} {
		if _, err := store.File(t.Context(), nothing); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%s: %v", nothing, err)
		}
	}
	if _, err := store.File(t.Context(), "s3://pond/data/x"); err == nil || errors.Is(err, fault.ErrNotFound) {
		t.Errorf("another bucket: %v", err)
	}
}

// A key with two slashes is not the one with one: Iceberg Java writes such keys for an unpartitioned spec that it takes
// for an empty partition.
func expectKeyThatIsNoPath(t *testing.T, store *catalogs.Store, objects map[string][]byte) {
	t.Helper()
	objects["s3://lake/data//x"], objects["s3://lake/data/x"] = []byte("0123456789"), []byte("another")
	f, err := store.Object("s3://lake/data//x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // only read
	info, err := f.Stat()
	if err != nil || info.Size() != 10 || info.Name() != "x" {
		t.Fatalf("%v, %v", info, err)
	}
	at := make([]byte, 4)
	if n, err := f.ReadAt(at, 3); err != nil || string(at[:n]) != "3456" {
		t.Errorf("%q, %v", at[:n], err)
	}
	if n, err := f.ReadAt(at, 8); err != io.EOF || string(at[:n]) != "89" {
		t.Errorf("at the end: %q, %v", at[:n], err)
	}
	if all, err := io.ReadAll(f); err != nil || string(all) != "0123456789" {
		t.Errorf("%q, %v", all, err)
	}
}

// A daemon loads its table again and again: it does not open connections each time.
func TestTablesThatAreLoadedAgainShareConnections(t *testing.T) {
	table := orders(t, 2)
	var connections atomic.Int64
	store := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(table.Metadata()))
	}))
	store.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	store.Start()
	defer store.Close()
	f := flags(t, "--metadata", "s3://lake/t/metadata.json", "--prop", "s3.endpoint="+store.URL, "--prop", "s3.region=eu-west-1",
		"--prop", "s3.access-key-id=me", "--prop", "s3.secret-access-key=x", "--prop", "s3.path-style-access=true")
	cat, err := f.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer cat.Close()
	for range 5 {
		if _, err := cat.Load(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for five loads one after the other", n)
	}
}

// A catalog that is not ready is asked again; one that refuses is not.
func TestACatalogThatIsNotReadyIsAskedAgain(t *testing.T) {
	calls := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if calls++; calls < 3 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, `{"defaults":{},"overrides":{}}`)
	}))
	defer s.Close()
	if _, err := flags(t, "--catalog-uri", s.URL).Open(t.Context()); err != nil || calls != 3 {
		t.Errorf("%d calls, %v", calls, err)
	}
}

func TestMetadataByLocation(t *testing.T) {
	expectOneFile(t, flags(t, "--metadata", orders(t, 2).MetadataLocation()), "whatever")
	cat, err := flags(t, "--metadata", "file:///nowhere/x.metadata.json").Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cat.Load(t.Context(), "x"); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestWrongFlags(t *testing.T) {
	for _, args := range [][]string{
		nil, {"--catalog-uri", "thrift://x"}, {"--catalog-uri", "http://x", "--catalog-type", "hive"}, {"--catalog-uri", "mysql://x", "--catalog-type", "sql"},
	} {
		if _, err := flags(t, args...).Open(t.Context()); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%q: %v", args, err)
		}
	}
	file := filepath.Join(t.TempDir(), "c.yaml")
	if err := os.WriteFile(file, []byte("url: x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := flags(t, "--config", file).Config(); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), "uri") {
		t.Errorf("a misspelt key: %v", err)
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	c, err := flags(t, "--catalog-uri", "http://x", "--token", "hush", "--credential", "me:hush").Config()
	if err != nil {
		t.Fatal(err)
	}
	if text := fmt.Sprintf("%v %+v", c, c); strings.Contains(text, "hush") {
		t.Errorf("got %s", text)
	}
}
