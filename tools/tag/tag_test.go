package tag_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/tools/command"
	"github.com/frazil-io/frazil/tools/tag"
)

// fakeCatalog has one table and notes the commits.
type fakeCatalog struct {
	commits []string
	token   string
	refuse  string
}

func (f *fakeCatalog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.token = r.Header.Get("Authorization")
	switch {
	case r.URL.Path != "/v1/v2/namespaces/kafka/tables/orders":
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"message":"Table does not exist","type":"NoSuchTableException","code":404}}`) //nolint:errcheck // a test
	case r.Method == http.MethodGet:
		io.WriteString(w, `{"metadata":{"table-uuid":"u-1","current-snapshot-id":9,"snapshots":[{"snapshot-id":7,"timestamp-ms":1700000000000},`+ //nolint:errcheck // a test
			`{"snapshot-id":9,"timestamp-ms":1700000001000}],"refs":{"main":{"snapshot-id":9,"type":"branch"},"old":{"snapshot-id":7,"type":"tag"}}}}`)
	case f.refuse != "":
		w.WriteHeader(http.StatusConflict)
		io.WriteString(w, `{"error":{"message":"`+f.refuse+`","type":"CommitFailedException","code":409}}`) //nolint:errcheck // a test
	default:
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(err)
		}
		f.commits = append(f.commits, string(body))
		io.WriteString(w, `{}`) //nolint:errcheck // a test
	}
}

func call(t *testing.T, f *fakeCatalog, args ...string) (string, error) {
	t.Helper()
	srv := httptest.NewServer(f)
	defer srv.Close()
	var out, errs bytes.Buffer
	err := tag.Command().Run(t.Context(), append(args, "--catalog", srv.URL+"/"), command.Streams{In: strings.NewReader(""), Out: &out, Err: &errs})
	return out.String(), err
}

func TestTags(t *testing.T) {
	for name, c := range map[string]struct {
		args      []string
		out       string
		committed string
	}{
		"the current snapshot": {[]string{"set", "orders", "new"}, "new is snapshot 9 of orders\n",
			`{"requirements":[{"type":"assert-table-uuid","uuid":"u-1"},{"ref":"new","snapshot-id":null,"type":"assert-ref-snapshot-id"}],` +
				`"updates":[{"action":"set-snapshot-ref","ref-name":"new","snapshot-id":9,"type":"tag"}]}`},
		"an older one, again": {[]string{"set", "orders", "old", "--snapshot", "7"}, "old is snapshot 7 of orders\n",
			`{"requirements":[{"type":"assert-table-uuid","uuid":"u-1"},{"ref":"old","snapshot-id":7,"type":"assert-ref-snapshot-id"}],` +
				`"updates":[{"action":"set-snapshot-ref","ref-name":"old","snapshot-id":7,"type":"tag"}]}`},
		"removed": {[]string{"remove", "orders", "old"}, "old is no tag of orders any more\n",
			`{"requirements":[{"type":"assert-table-uuid","uuid":"u-1"},{"ref":"old","snapshot-id":7,"type":"assert-ref-snapshot-id"}],` +
				`"updates":[{"action":"remove-snapshot-ref","ref-name":"old"}]}`},
		"listed": {[]string{"list", "orders"}, "TAG  SNAPSHOT  TIME\nold  7         2023-11-14T22:13:20Z\n", ""},
	} {
		f := &fakeCatalog{}
		out, err := call(t, f, c.args...)
		if err != nil || out != c.out {
			t.Errorf("%s: %q, %v", name, out, err)
		}
		if got := strings.Join(f.commits, ""); got != c.committed {
			t.Errorf("%s: committed %s, want %s", name, got, c.committed)
		}
	}
	out, err := call(t, &fakeCatalog{}, "list", "orders", "--format", "json")
	var lines []map[string]any
	if err != nil || json.Unmarshal([]byte(out), &lines) != nil || len(lines) != 1 || lines[0]["name"] != "old" {
		t.Errorf("%s, %v", out, err)
	}
}

func TestRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		args  []string
		want  string
		usage bool
	}{
		"no words":       {nil, "tag set TABLE NAME", true},
		"no name":        {[]string{"set", "orders"}, "tag set TABLE NAME", true},
		"another verb":   {[]string{"move", "orders", "x"}, "tag set TABLE NAME", true},
		"a format":       {[]string{"list", "orders", "--format", "xml"}, "--format", true},
		"no table":       {[]string{"list", "none"}, "Table does not exist (404)", false},
		"no tag":         {[]string{"remove", "orders", "none"}, "no such tag", false},
		"main":           {[]string{"remove", "orders", "main"}, "no such tag", false},
		"by the catalog": {[]string{"set", "orders", "x"}, "ref is there already (409)", false},
		"no token file":  {[]string{"list", "orders", "--token-file", "/nonexistent"}, "read the token", false},
	} {
		_, err := call(t, &fakeCatalog{refuse: "ref is there already"}, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.want) || errors.Is(err, command.ErrUsage) != c.usage {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTokenOfAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("secret-of-alice\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fakeCatalog{}
	if _, err := call(t, f, "list", "orders", "--token-file", file); err != nil || f.token != "Bearer secret-of-alice" {
		t.Errorf("token %q, %v", f.token, err)
	}
}
