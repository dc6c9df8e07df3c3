package edge_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/services/edge"
)

func token() edge.TokenConfig {
	return edge.TokenConfig{Token: config.NewSecret("alice-token-0123456"), Principal: "alice", Tables: []string{"*"}}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*edge.Config)
		err      string // part of it; empty: valid
		warnings int
	}{
		"default":               {func(*edge.Config) {}, "", 0},
		"open on IPv6 loopback": {func(c *edge.Config) { c.REST.Listen, c.S3.Listen = "[::1]:0", "localhost:0" }, "", 0},
		"open REST, public S3":  {func(c *edge.Config) { c.Auth.Mode, c.S3.Listen = edge.AuthNone, "0.0.0.0:1" }, "only allowed if", 0},
		"open S3, public REST":  {func(c *edge.Config) { c.Auth.Mode, c.REST.Listen = edge.AuthNone, ":8181" }, "only allowed if", 0},
		"public, mode not said": {func(c *edge.Config) { c.REST.Listen = "0.0.0.0:8181" }, "at least one token", 0},
		"public by name":        {func(c *edge.Config) { c.REST.Listen = "host.example:8181" }, "at least one token", 0},
		"token without tokens":  {func(c *edge.Config) { c.Auth.Mode = edge.AuthToken }, "at least one token", 0},
		"public with token":     {func(c *edge.Config) { c.REST.Listen, c.Auth.Tokens = ":8181", []edge.TokenConfig{token()} }, "", 0},
		"tokens without effect": {func(c *edge.Config) { c.Auth.Mode, c.Auth.Tokens = edge.AuthNone, []edge.TokenConfig{token()} }, "", 1},
		"unknown mode":          {func(c *edge.Config) { c.Auth.Mode = "basic" }, "auth.mode", 0},
		"short token": {func(c *edge.Config) {
			tk := token()
			tk.Token = config.NewSecret("short")
			c.Auth.Tokens = []edge.TokenConfig{tk}
		}, "at least 16", 0},
		"blank in token": {func(c *edge.Config) {
			tk := token()
			tk.Token = config.NewSecret("alice-token-0123456 x")
			c.Auth.Tokens = []edge.TokenConfig{tk}
		}, "blanks", 0},
		"token twice":  {func(c *edge.Config) { c.Auth.Tokens = []edge.TokenConfig{token(), token()} }, "twice", 0},
		"no principal": {func(c *edge.Config) { tk := token(); tk.Principal = ""; c.Auth.Tokens = []edge.TokenConfig{tk} }, "principal", 0},
		"no tables":    {func(c *edge.Config) { tk := token(); tk.Tables = nil; c.Auth.Tokens = []edge.TokenConfig{tk} }, "glob", 0},
		"bad glob": {func(c *edge.Config) {
			tk := token()
			tk.Tables = []string{"a["}
			c.Auth.Tokens = []edge.TokenConfig{tk}
		}, "malformed", 0},
		"bucket with dots":            {func(c *edge.Config) { c.S3.Bucket = "my.bucket" }, "s3.bucket", 0},
		"bucket too short":            {func(c *edge.Config) { c.S3.Bucket = "ab" }, "s3.bucket", 0},
		"endpoint without scheme":     {func(c *edge.Config) { c.S3.PublicEndpoint = "s3.example:9000" }, "s3.public_endpoint", 0},
		"endpoint with path":          {func(c *edge.Config) { c.S3.PublicEndpoint = "https://example/s3" }, "s3.public_endpoint", 0},
		"endpoint":                    {func(c *edge.Config) { c.S3.PublicEndpoint = "https://s3.example/" }, "", 0},
		"public uri":                  {func(c *edge.Config) { c.REST.PublicURI = "example" }, "rest.public_uri", 0},
		"warehouse":                   {func(c *edge.Config) { c.REST.DefaultWarehouse = "v1" }, "rest.default_warehouse", 0},
		"listen":                      {func(c *edge.Config) { c.REST.Listen = "8181" }, "rest.listen", 0},
		"lifetime too long":           {func(c *edge.Config) { c.Credentials.Lifetime = 13 * time.Hour }, "credentials.lifetime", 0},
		"lifetime none":               {func(c *edge.Config) { c.Credentials.Lifetime = 0 }, "credentials.lifetime", 0},
		"lifetime short":              {func(c *edge.Config) { c.Credentials.Lifetime = 6 * time.Minute }, "", 1},
		"key short":                   {func(c *edge.Config) { c.Credentials.Key = config.NewSecret("short") }, "at least 32", 0},
		"previous key empty":          {func(c *edge.Config) { c.Credentials.PreviousKeys = []config.Secret{{}} }, "at least 32", 0},
		"hold longer than clients do": {func(c *edge.Config) { c.S3.Hold = time.Minute }, "", 1},
		"no hold":                     {func(c *edge.Config) { c.S3.Hold = 0 }, "hold", 0},
		"no grace":                    {func(c *edge.Config) { c.Shutdown.Grace = 0 }, "shutdown", 0},
	} {
		cfg := edge.Default()
		c.change(&cfg)
		warnings, err := cfg.Validate()
		if (c.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, want %q", name, err, c.err)
		}
		if len(warnings) != c.warnings {
			t.Errorf("%s: warnings %v, want %d", name, warnings, c.warnings)
		}
		for _, tk := range cfg.Auth.Tokens {
			if err != nil && strings.Contains(err.Error(), tk.Token.Reveal()) {
				t.Errorf("%s: the error tells the token", name)
			}
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	cfg := edge.Default()
	cfg.Auth.Tokens = []edge.TokenConfig{token()}
	cfg.Credentials.Key = config.NewSecret("0123456789abcdef0123456789abcdef")
	raw, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{fmt.Sprint(cfg), fmt.Sprintf("%+v", cfg), fmt.Sprintf("%#v", cfg), string(raw)} {
		if strings.Contains(text, "0123456") || !strings.Contains(text, "***") {
			t.Errorf("printed: %s", text)
		}
	}
}
