// Package config reads one YAML file and overrides from the environment into a struct of defaults. Whatever it does
// not know is an error that names the key and the nearest one that exists.
package config

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// EnvPrefix begins the name of every override: FRAZIL_S3__BUCKET sets s3.bucket.
const EnvPrefix = "FRAZIL_"

// Load fills into, a pointer to a struct that holds the defaults, from the file at path ("" = none) and then from
// environ, the entries "NAME=value" of a process environment. A value from the environment is read as YAML, so that
// lists and maps can be given in flow style. Errors name the file's line or the variable, the key and the nearest
// known key; no value is repeated in them.
func Load(path string, environ []string, into any) error {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
	}
	root, err := parse(text)
	if err != nil {
		return fmt.Errorf("read configuration %s: %w", path, err)
	}
	if root != nil {
		if err := apply(root, into); err != nil {
			return fmt.Errorf("read configuration %s: %w", path, err)
		}
	}
	return fromEnviron(environ, into)
}

// Parse is Load from text alone.
func Parse(text []byte, into any) error {
	root, err := parse(text)
	if err != nil || root == nil {
		return err
	}
	return apply(root, into)
}

func parse(text []byte) (*yaml.Node, error) {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	var doc yaml.Node
	if err := dec.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var more yaml.Node
	if err := dec.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one YAML document")
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, errors.New("the top level is no mapping of keys")
	}
	return root, nil
}

// apply checks every key against the struct and decodes.
func apply(root *yaml.Node, into any) error {
	if err := checkKeys(root, into); err != nil {
		return err
	}
	if err := root.Decode(into); err != nil {
		return hideValues(err)
	}
	return nil
}

// fromEnviron applies the overrides in the order of their names.
func fromEnviron(environ []string, into any) error {
	entries := slices.Clone(environ)
	slices.Sort(entries)
	for _, entry := range entries {
		name, value, _ := strings.Cut(entry, "=")
		rest, ok := strings.CutPrefix(name, EnvPrefix)
		if !ok || fromCluster(rest) {
			continue
		}
		root, err := overrideNode(strings.Split(strings.ToLower(rest), "__"), value)
		if err == nil {
			err = apply(root, into)
		}
		if err != nil {
			return fmt.Errorf("environment variable %s: %w", name, err)
		}
	}
	return nil
}

// fromCluster recognises what Kubernetes sets in every container when a Service is called "frazil".
func fromCluster(rest string) bool {
	return rest == "PORT" || strings.HasPrefix(rest, "PORT_") || strings.HasPrefix(rest, "SERVICE_")
}

// overrideNode makes the mapping that sets the value at a path of keys.
func overrideNode(path []string, value string) (*yaml.Node, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(value), &doc); err != nil {
		return nil, errors.New("the value is no YAML")
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value}
	if doc.Kind == yaml.DocumentNode && len(doc.Content) == 1 {
		n = doc.Content[0]
	}
	for _, key := range slices.Backward(path) {
		n = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{
			{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}, n,
		}}
	}
	return n, nil
}

// Show prints the whole effective configuration as YAML, secrets as ***.
func Show(v any) ([]byte, error) {
	var out bytes.Buffer
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	if err := enc.Close(); err != nil {
		return nil, fmt.Errorf("print configuration: %w", err)
	}
	return out.Bytes(), nil
}

// Hash is a short fingerprint of what Show prints, for comparing configurations between processes. Secrets do not
// enter it.
func Hash(v any) (string, error) {
	text, err := Show(v)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}
