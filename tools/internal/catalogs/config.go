// Package catalogs opens the catalogs and object stores of tables that others write: the same flags and the same
// configuration file for every command on physical tables.
package catalogs

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/frazil-io/frazil/libs/config"
	"github.com/frazil-io/frazil/libs/fault"
)

// Config says how to reach a catalog. It is also the form of the configuration file.
type Config struct {
	// URI of the catalog: http(s)://…, sqlite:///FILE or postgresql://….
	URI string `yaml:"uri"`
	// Type is rest, sql or glue. Default: by the URI's scheme.
	Type string `yaml:"type"`
	// Name of the catalog in its own database (SQL only). Default: default.
	Name string `yaml:"name"`
	// Token is a bearer token, Credential an OAuth2 CLIENT:SECRET (REST). A value @FILE is read from the file.
	Token      config.Secret `yaml:"token"`
	Credential config.Secret `yaml:"credential"`
	Warehouse  string        `yaml:"warehouse"`
	// Properties are passed to the catalog and to the store as they are: scope, oauth2-server-uri,
	// rest.sigv4-enabled, s3.endpoint, s3.access-key-id, glue.region …
	Properties map[string]string `yaml:"properties"`
}

// Flags are the flags of a command that opens a catalog.
type Flags struct {
	file, token, credential string
	given                   Config
	metadata                string
}

// Register adds the flags.
func (f *Flags) Register(set *flag.FlagSet) {
	set.StringVar(&f.file, "config", "", "YAML `FILE` with the catalog: uri, type, name, token, credential, warehouse, properties; flags override it")
	set.StringVar(&f.given.URI, "catalog-uri", "", "`URI` of the catalog: http(s)://..., sqlite:///FILE, postgresql://...")
	set.StringVar(&f.given.Type, "catalog-type", "", "`TYPE` of the catalog: rest, sql or glue (default: by the URI)")
	set.StringVar(&f.given.Name, "catalog-name", "", "`NAME` of an SQL catalog in its database (default \"default\")")
	set.StringVar(&f.token, "token", "", "bearer `TOKEN`, or @FILE that holds it")
	set.StringVar(&f.credential, "credential", "", "OAuth2 `CLIENT:SECRET`, or @FILE that holds it")
	set.StringVar(&f.given.Warehouse, "warehouse", "", "`NAME` or location of the warehouse")
	set.StringVar(&f.metadata, "metadata", "", "read the table metadata at this `LOCATION` instead of asking a catalog")
	set.Func("prop", "`KEY=VALUE` for the catalog and the store, as s3.endpoint=http://127.0.0.1:9000; may be repeated", func(kv string) error {
		key, value, ok := strings.Cut(kv, "=")
		if !ok || key == "" {
			return fmt.Errorf("%q is not KEY=VALUE", kv)
		}
		if f.given.Properties == nil {
			f.given.Properties = map[string]string{}
		}
		f.given.Properties[key] = value
		return nil
	})
}

// Metadata answers the location given instead of a catalog; "" if there is none.
func (f *Flags) Metadata() string { return f.metadata }

// Config answers the configuration file with the flags put over it. Errors: fault.ErrInvalid for what cannot be,
// else those of the file system.
func (f *Flags) Config() (Config, error) {
	var c Config
	if f.file != "" {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return c, fmt.Errorf("read configuration: %w", err)
		}
		if err := config.Parse(text, &c); err != nil {
			return c, fmt.Errorf("configuration %s: %w: %w", f.file, fault.ErrInvalid, err)
		}
	}
	for _, o := range []struct{ to, from *string }{
		{&c.URI, &f.given.URI}, {&c.Type, &f.given.Type}, {&c.Name, &f.given.Name}, {&c.Warehouse, &f.given.Warehouse},
	} {
		if *o.from != "" {
			*o.to = *o.from
		}
	}
	if f.token != "" {
		c.Token = config.NewSecret(f.token)
	}
	if f.credential != "" {
		c.Credential = config.NewSecret(f.credential)
	}
	for _, s := range []*config.Secret{&c.Token, &c.Credential} {
		var err error
		if *s, err = fromFile(*s); err != nil {
			return c, err
		}
	}
	if len(f.given.Properties) > 0 {
		merged := maps.Clone(c.Properties)
		if merged == nil {
			merged = map[string]string{}
		}
		maps.Copy(merged, f.given.Properties)
		c.Properties = merged
	}
	return c, nil
}

// fromFile resolves @FILE, without the white space around the secret.
func fromFile(s config.Secret) (config.Secret, error) {
	name, ok := strings.CutPrefix(s.Reveal(), "@")
	if !ok {
		return s, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return s, fmt.Errorf("read secret: %w", err)
	}
	return config.NewSecret(strings.TrimSpace(string(text))), nil
}

// Kinds of catalogs.
const (
	REST = "rest"
	SQL  = "sql"
	Glue = "glue"
)

// kind answers the type, stated or by the URI. Errors: fault.ErrInvalid.
func (c *Config) kind() (string, error) {
	scheme, _, _ := strings.Cut(c.URI, ":")
	scheme, _, _ = strings.Cut(scheme, "+") // postgresql+psycopg2, as PyIceberg has it
	known := map[string]string{"http": REST, "https": REST, "sqlite": SQL, "postgresql": SQL, "postgres": SQL, "glue": Glue}
	switch c.Type {
	case REST, SQL, Glue:
		return c.Type, nil
	case "":
		if k, ok := known[scheme]; ok {
			return k, nil
		}
		if c.URI == "" {
			return "", fmt.Errorf("no catalog: --catalog-uri, --config or --metadata is needed: %w", fault.ErrInvalid)
		}
		return "", fmt.Errorf("the scheme of catalog URI %q says no type: --catalog-type rest, sql or glue: %w", scheme, fault.ErrInvalid)
	}
	return "", fmt.Errorf("catalog type %q is not rest, sql or glue: %w", c.Type, fault.ErrInvalid)
}
