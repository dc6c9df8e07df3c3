package config

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

// checkKeys walks the document beside the type that it is decoded into. A list of all unknown and doubled keys is
// the error.
func checkKeys(root *yaml.Node, into any) error {
	var errs []error
	walk(root, reflect.TypeOf(into).Elem(), "", &errs)
	return errors.Join(errs...)
}

func walk(n *yaml.Node, t reflect.Type, path string, errs *[]error) {
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[yaml.Unmarshaler]()) {
		return
	}
	switch {
	case t.Kind() == reflect.Struct && n.Kind == yaml.MappingNode:
		walkStruct(n, t, path, errs)
	case t.Kind() == reflect.Map && n.Kind == yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			walk(n.Content[i+1], t.Elem(), join(path, n.Content[i].Value), errs)
		}
	case t.Kind() == reflect.Slice && n.Kind == yaml.SequenceNode:
		for i, item := range n.Content {
			walk(item, t.Elem(), fmt.Sprintf("%s[%d]", path, i), errs)
		}
	case (t.Kind() == reflect.Struct || t.Kind() == reflect.Map) && n.Tag != "!!null":
		*errs = append(*errs, fmt.Errorf("line %d: %s holds keys of its own, not a value", n.Line, path))
	}
}

func walkStruct(n *yaml.Node, t reflect.Type, path string, errs *[]error) {
	fields := fieldsOf(t)
	known := make([]string, 0, len(fields))
	for name := range fields {
		known = append(known, name)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		ft, ok := fields[key.Value]
		if !ok {
			*errs = append(*errs, unknown(key, path, known))
			continue
		}
		walk(n.Content[i+1], ft, join(path, key.Value), errs)
	}
}

func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := make(map[string]reflect.Type, t.NumField())
	for f := range fields(t) {
		name, opts, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		switch {
		case !f.IsExported() || name == "-":
		case strings.Contains(opts, "inline"):
			for k, v := range fieldsOf(f.Type) {
				out[k] = v
			}
		case name != "":
			out[name] = f.Type
		default:
			out[strings.ToLower(f.Name)] = f.Type
		}
	}
	return out
}

func fields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if !yield(t.Field(i)) {
				return
			}
		}
	}
}

func unknown(key *yaml.Node, path string, known []string) error {
	where := ""
	if key.Line > 0 {
		where = fmt.Sprintf("line %d: ", key.Line)
	}
	if near := Nearest(key.Value, known); near != "" {
		return fmt.Errorf("%sunknown key %s: did you mean %s?", where, join(path, key.Value), join(path, near))
	}
	return fmt.Errorf("%sunknown key %s", where, join(path, key.Value))
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// Nearest answers the known word with the smallest edit distance from word, the first in alphabetical order among
// equals; "" when there is none.
func Nearest(word string, known []string) string {
	best, at := "", -1
	for _, k := range known {
		d := distance(word, k)
		if at < 0 || d < at || d == at && k < best {
			best, at = k, d
		}
	}
	return best
}

// distance is the number of single-character edits between a and b.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// hideValues takes the values out of the YAML decoder's messages ("cannot unmarshal !!str `hunter2` into int"):
// one of them may be a secret.
func hideValues(err error) error {
	var te *yaml.TypeError
	text := err.Error()
	if errors.As(err, &te) {
		text = strings.Join(te.Errors, "; ")
	}
	return errors.New(regexp.MustCompile("`[^`]*`").ReplaceAllString(text, "the value"))
}
