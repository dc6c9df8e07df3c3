package catalogs_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/iceberg-go"
	"github.com/apache/iceberg-go/catalog"

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
	defer cat.Close() //nolint:errcheck // a test
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
	made, err := catalog.Load(t.Context(), "mine", iceberg.Properties{
		"type": "sql", "sql.driver": "sqlite", "sql.dialect": "sqlite", "uri": path, "init_catalog_tables": "true", "warehouse": "file://" + t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := made.CreateNamespace(t.Context(), []string{"db"}, nil); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close() //nolint:errcheck // a test
	if _, err := db.ExecContext(t.Context(), `INSERT INTO iceberg_tables (catalog_name, table_namespace, table_name, metadata_location) VALUES ('mine', 'db', 'orders', ?)`, table.MetadataLocation()); err != nil {
		t.Fatal(err)
	}
	expectOneFile(t, flags(t, "--catalog-uri", "sqlite:///"+path, "--catalog-name", "mine"), "db.orders")

	// A database without a catalog gets none from us.
	empty := filepath.Join(t.TempDir(), "empty.db")
	cat, err := flags(t, "--catalog-uri", "sqlite:///"+empty).Open(t.Context())
	if err == nil {
		_, err = cat.Load(t.Context(), "db.orders")
	}
	if err == nil {
		t.Error("a table out of nothing")
	}
	if b, err := os.ReadFile(empty); err == nil && len(b) > 0 {
		t.Errorf("the tool wrote %d bytes into the database", len(b))
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
