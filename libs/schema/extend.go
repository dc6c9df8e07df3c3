package schema

import (
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
)

// Extend answers the schema that a table needs so that records of one more writer schema fit it. list is the
// table's append-only list of schemas, oldest first; nil makes the table's first schema, with the metadata columns
// in front. writer has the value's columns (and the key columns that the value lacks); its field ids mean nothing.
//
// A column that the table lacks is added, optional, under an id that no schema of the list ever used. A column that
// the writer lacks stays. A type is promoted only as Iceberg allows (spec, "Schema Evolution"): int to long, float
// to double, decimal to a larger precision. Any other change is fault.ErrInvalid and names the column, and so is a
// name that collides with a column that Frazil adds. A primitive column's Doc says its unit where the type does not,
// so a writer with another Doc is refused like one with another type.
//
// changed is false when the last schema of the list already fits; that one is returned then, and nothing in list is
// ever altered.
func Extend(list []*Schema, writer *Schema) (s *Schema, changed bool, err error) {
	ids := idSource{next: TimestampFieldID + 1}
	var out Schema
	if len(list) == 0 {
		out.Fields = metadataColumns()
		changed = true
	} else {
		for _, old := range list {
			ids.avoid(old.Fields)
		}
		last := list[len(list)-1]
		out.Fields = cloneFields(last.Fields)
	}
	if err := checkNames(out.Fields, writer.Fields); err != nil {
		return nil, false, err
	}
	grew, err := mergeFields(&out.Fields, writer.Fields, "", &ids)
	if err != nil {
		return nil, false, err
	}
	if !grew && !changed {
		return list[len(list)-1], false, nil
	}
	out.ID = int32(len(list))
	return &out, true, nil
}

// metadataColumns are the first columns of every table.
func metadataColumns() []Field {
	return []Field{
		{ID: PartitionFieldID, Name: PartitionColumn, Type: Type{Kind: Int}, Required: true},
		{ID: OffsetFieldID, Name: OffsetColumn, Type: Type{Kind: Long}, Required: true},
		{ID: TimestampFieldID, Name: TimestampColumn, Type: Type{Kind: Timestamptz}, Required: true},
	}
}

// Metadata reports whether a field id is one of the columns that come from the Kafka record itself.
func Metadata(id int32) bool { return id >= PartitionFieldID && id <= TimestampFieldID }

// idSource hands out field ids that were never used in the table.
type idSource struct{ next int32 }

func (s *idSource) take() int32 {
	s.next++
	return s.next - 1
}

func (s *idSource) avoid(fields []Field) {
	for i := range fields {
		f := &fields[i]
		if f.ID != RowIDFieldID {
			s.next = max(s.next, f.ID+1)
		}
		s.avoid(nested(&f.Type))
	}
}

func nested(t *Type) []Field {
	switch t.Kind {
	case Struct:
		return t.Fields
	case List:
		return []Field{*t.Elem}
	case Map:
		return []Field{*t.Key, *t.Elem}
	default:
		return nil
	}
}

// checkNames refuses names that engines cannot tell apart (Spark, DuckDB and Trino fold case) or that are taken.
func checkNames(table, writer []Field) error {
	for i := range writer {
		name := writer[i].Name
		switch {
		case name == "":
			return fmt.Errorf("a column has an empty name: %w", fault.ErrInvalid)
		case isMetadataName(name):
			return fmt.Errorf("column %q has the name of a metadata column (%s, %s, %s), and neither can be renamed yet: leave the topic out with tables.<topic>.exclude: %w",
				name, PartitionColumn, OffsetColumn, TimestampColumn, fault.ErrInvalid)
		case isReservedName(name):
			return fmt.Errorf("column %q has a name that Iceberg reserves: %w", name, fault.ErrInvalid)
		}
	}
	seen := map[string]string{}
	for _, f := range slices.Concat(table, writer) {
		folded := strings.ToLower(f.Name)
		if other, ok := seen[folded]; ok && other != f.Name {
			return fmt.Errorf("columns %q and %q differ only by case: %w", other, f.Name, fault.ErrInvalid)
		}
		seen[folded] = f.Name
	}
	for i := range writer {
		for j := range writer[:i] {
			if writer[i].Name == writer[j].Name {
				return fmt.Errorf("column %q occurs twice: %w", writer[i].Name, fault.ErrInvalid)
			}
		}
	}
	return nil
}

func isMetadataName(name string) bool {
	for _, m := range []string{PartitionColumn, OffsetColumn, TimestampColumn} {
		if strings.EqualFold(name, m) {
			return true
		}
	}
	return false
}

// isReservedName: Iceberg spec, "Reserved Field IDs"; Spark refuses tables with these names.
func isReservedName(name string) bool {
	for _, m := range []string{RowIDColumn, "_file", "_pos", "_deleted", "_spec_id", "_partition",
		"_last_updated_sequence_number", "_change_type", "_change_ordinal", "_commit_snapshot_id"} {
		if strings.EqualFold(name, m) {
			return true
		}
	}
	return false
}

// mergeFields adds to table what writer has and table lacks. path names the enclosing column in errors.
func mergeFields(table *[]Field, writer []Field, path string, ids *idSource) (changed bool, err error) {
	for i := range writer {
		w := &writer[i]
		name := path + w.Name
		at := slices.IndexFunc(*table, func(f Field) bool { return f.Name == w.Name })
		if at < 0 {
			f, err := newField(w, name, ids)
			if err != nil {
				return false, err
			}
			*table, changed = append(*table, f), true
			continue
		}
		grew, err := mergeField(&(*table)[at], w, name, ids)
		if err != nil {
			return false, err
		}
		changed = changed || grew
	}
	return changed, nil
}

// newField copies a writer's field with ids of the table: the field first, what is nested in it after it. Everything
// but a map's key is optional, since older and later records may lack it.
func newField(w *Field, path string, ids *idSource) (Field, error) {
	f := Field{ID: ids.take(), Name: w.Name, Type: w.Type, Doc: w.Doc}
	switch w.Type.Kind {
	case Struct:
		if len(w.Type.Fields) == 0 {
			return f, fmt.Errorf("column %q is a struct without fields: %w", path, fault.ErrInvalid)
		}
		f.Type.Fields = make([]Field, len(w.Type.Fields))
		for i := range w.Type.Fields {
			inner := &w.Type.Fields[i]
			nf, err := newField(inner, path+"."+inner.Name, ids)
			if err != nil {
				return f, err
			}
			f.Type.Fields[i] = nf
		}
	case List:
		elem, err := newField(w.Type.Elem, path+".element", ids)
		if err != nil {
			return f, err
		}
		elem.Name = "element"
		f.Type.Elem = &elem
	case Map:
		key, err := newField(w.Type.Key, path+".key", ids)
		if err != nil {
			return f, err
		}
		val, err := newField(w.Type.Elem, path+".value", ids)
		if err != nil {
			return f, err
		}
		key.Name, key.Required, val.Name = "key", true, "value"
		f.Type.Key, f.Type.Elem = &key, &val
	default:
	}
	return f, nil
}

// mergeField merges two fields of one name. The doc of a primitive one is its unit.
func mergeField(table, writer *Field, path string, ids *idSource) (changed bool, err error) {
	if table.Type.Kind <= Binary && writer.Type.Kind <= Binary && table.Doc != writer.Doc {
		return false, fmt.Errorf("column %q changes its meaning from %q to %q: %w", path, table.Doc, writer.Doc, fault.ErrInvalid)
	}
	return mergeType(&table.Type, &writer.Type, path, ids)
}

func mergeType(table, writer *Type, path string, ids *idSource) (changed bool, err error) {
	switch {
	case table.Kind == Struct && writer.Kind == Struct:
		return mergeFields(&table.Fields, writer.Fields, path+".", ids)
	case table.Kind == List && writer.Kind == List:
		return mergeField(table.Elem, writer.Elem, path+".element", ids)
	case table.Kind == Map && writer.Kind == Map:
		if !Holds(&table.Key.Type, &writer.Key.Type) {
			return false, unfit(table, writer, path+".key")
		}
		return mergeField(table.Elem, writer.Elem, path+".value", ids)
	case Holds(table, writer):
		return false, nil
	case Holds(writer, table):
		*table = *writer
		return true, nil
	}
	return false, unfit(table, writer, path)
}

func unfit(table, writer *Type, path string) error {
	return fmt.Errorf("column %q changes from %s to %s, which is not a legal promotion: %w", path, table, writer, fault.ErrInvalid)
}

// Holds reports whether every value of primitive type w is a value of primitive type t: equal types, and the
// promotions that Iceberg allows.
func Holds(t, w *Type) bool {
	switch {
	case t.Kind >= List || w.Kind >= List:
		return false
	case t.Kind == Decimal && w.Kind == Decimal:
		return t.Scale == w.Scale && t.Precision >= w.Precision
	case t.Kind == w.Kind:
		return true
	case t.Kind == Long:
		return w.Kind == Int
	case t.Kind == Double:
		return w.Kind == Float
	}
	return false
}

func cloneFields(fields []Field) []Field {
	out := slices.Clone(fields)
	for i := range out {
		t := &out[i].Type
		t.Fields = cloneFields(t.Fields)
		if t.Elem != nil {
			elem := cloneFields([]Field{*t.Elem})[0]
			t.Elem = &elem
		}
		if t.Key != nil {
			key := cloneFields([]Field{*t.Key})[0]
			t.Key = &key
		}
	}
	return out
}
