package config_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/config"
)

type table struct {
	KeyFields []string `yaml:"key_fields"`
	Plan      string   `yaml:"plan"`
}

type token struct {
	Token     config.Secret `yaml:"token"`
	Principal string        `yaml:"principal"`
}

type sample struct {
	DataDir string `yaml:"data_dir"`
	Cache   struct {
		MaxBytes config.Size `yaml:"max_bytes"`
	} `yaml:"cache"`
	Auth struct {
		Tokens []token `yaml:"tokens"`
	} `yaml:"auth"`
	Hold   time.Duration    `yaml:"hold"`
	Slots  int              `yaml:"slots"`
	Tables map[string]table `yaml:"tables"`
}

func defaults() sample {
	s := sample{DataDir: "data", Hold: 25 * time.Second, Slots: 4}
	s.Cache.MaxBytes = 10 << 30
	return s
}

func TestFileAndEnvironment(t *testing.T) {
	path := filepath.Join(t.TempDir(), "frazil.yaml")
	text := "cache:\n  max_bytes: 2GiB\nhold: 3s\ntables:\n  shop.orders:\n    key_fields: [id]\nauth:\n  tokens:\n    - {token: abc, principal: ann}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := defaults()
	env := []string{"FRAZIL_CACHE__MAX_BYTES=64MB", "FRAZIL_SLOTS=9", "FRAZIL_DATA_DIR=/d", "HOME=/x",
		"FRAZIL_PORT=tcp://10.0.0.1:8181", "FRAZIL_SERVICE_HOST=10.0.0.1"}
	if err := config.Load(path, env, &got); err != nil {
		t.Fatal(err)
	}
	want := defaults()
	want.Cache.MaxBytes, want.Hold, want.Slots, want.DataDir = 64e6, 3*time.Second, 9, "/d"
	want.Tables = map[string]table{"shop.orders": {KeyFields: []string{"id"}}}
	want.Auth.Tokens = []token{{config.NewSecret("abc"), "ann"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got = defaults()
	if err := config.Load("", []string{"FRAZIL_TABLES={shop.orders: {plan: eager}}"}, &got); err != nil || got.Tables["shop.orders"].Plan != "eager" {
		t.Errorf("a map in flow style: %v, %v", got.Tables, err)
	}
}

func TestWhatIsUnknownIsNamedWithItsNeighbour(t *testing.T) {
	for _, c := range []struct {
		text, env string
		want      []string
	}{
		{text: "cache:\n  max_byte: 1\n", want: []string{"line 2", "cache.max_byte", "did you mean cache.max_bytes?"}},
		{text: "tables:\n  a:\n    key_field: [x]\n", want: []string{"tables.a.key_field", "tables.a.key_fields"}},
		{text: "auth:\n  tokens:\n  - {tokn: x}\n", want: []string{"auth.tokens[0].tokn", "auth.tokens[0].token"}},
		{text: "hodl: 1s\ncach: {}\n", want: []string{"hodl", "hold", "cach", "cache"}},
		{text: "cache: 7\n", want: []string{"cache holds keys of its own"}},
		{text: "slots: 1\nslots: 2\n", want: []string{"already defined"}},
		{text: "- a\n", want: []string{"no mapping"}},
		{text: "slots: 1\n---\nslots: 2\n", want: []string{"more than one"}},
		{text: "hold: soon\n", want: []string{"line 1", "time.Duration"}},
		{text: "cache: {max_bytes: 10 gigs}\n", want: []string{"10 gigs", "no size"}},
		{env: "FRAZIL_CACHE__MAXBYTES=1", want: []string{"FRAZIL_CACHE__MAXBYTES", "cache.max_bytes"}},
		{env: "FRAZIL_SLOTS=hunter2", want: []string{"FRAZIL_SLOTS", "the value"}},
	} {
		path := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		into := defaults()
		err := config.Load(path, []string{c.env}, &into)
		if err == nil {
			t.Errorf("%q %q: no error", c.text, c.env)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%q %q: error %q does not say %q", c.text, c.env, err, w)
			}
		}
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error repeats a value: %v", err)
		}
	}
	into := defaults()
	if err := config.Load(filepath.Join(t.TempDir(), "none.yaml"), nil, &into); err == nil {
		t.Error("a missing file is no error")
	}
	for _, empty := range []string{"", "# only words\n", "null\n"} {
		if err := config.Parse([]byte(empty), &into); err != nil {
			t.Errorf("%q: %v", empty, err)
		}
	}
}

func TestSecretsAreNotShown(t *testing.T) {
	s := defaults()
	s.Auth.Tokens = []token{{config.NewSecret("hunter2"), "ann"}}
	yml, err := config.Show(s)
	if err != nil {
		t.Fatal(err)
	}
	js, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{string(yml), string(js), fmt.Sprintf("%v %+v %#v %s %x", s, s, s, s.Auth.Tokens[0].Token, s.Auth.Tokens[0].Token)} {
		if strings.Contains(printed, "hunter2") || strings.Contains(printed, "68756e74657232") {
			t.Errorf("shown: %s", printed)
		}
	}
	if !strings.Contains(string(yml), "***") || !strings.Contains(string(yml), "hold: 25s") || !strings.Contains(string(yml), "max_bytes: 10GiB") {
		t.Errorf("shown: %s", yml)
	}
	if s.Auth.Tokens[0].Token.Reveal() != "hunter2" {
		t.Error("the secret itself is lost")
	}
}

func TestHash(t *testing.T) {
	a, b := defaults(), defaults()
	b.Slots++
	ha, err := config.Hash(a)
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Hash(defaults())
	if err != nil || ha != again {
		t.Errorf("equal configurations: %s, %s, %v", ha, again, err)
	}
	if hb, err := config.Hash(b); err != nil || ha == hb {
		t.Errorf("different configurations have one hash: %s, %v", hb, err)
	}
}

func TestSizes(t *testing.T) {
	for text, want := range map[string]config.Size{
		"0": 0, "4096": 4096, "10GiB": 10 << 30, "1.5GB": 1.5e9, "64 MiB": 64 << 20, "7B": 7, "1KB": 1000, "8TiB": 8 << 40,
	} {
		if got, err := config.ParseSize(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
		if back, err := config.ParseSize(want.String()); err != nil || back != want {
			t.Errorf("%d prints %s, which reads %d, %v", want, want, back, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "1e3", "9999999999GiB", "10gib", "NaN", "GiB", "0x10", "Inf"} {
		if got, err := config.ParseSize(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("cache: {max_bytes: 2GiB}"))
	f.Add([]byte("a: &a {x: *a}"))
	f.Add([]byte("tables: {t: {plan: eager}}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		into := defaults()
		if err := config.Parse(text, &into); err != nil {
			return
		}
		if _, err := config.Show(into); err != nil {
			t.Errorf("what was read cannot be shown: %v", err)
		}
	})
}
