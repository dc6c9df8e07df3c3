package iceberg

import "strings"

// The Avro schemas of manifests and manifest lists, with the field ids of Iceberg spec, "Manifests" and
// "Manifest Lists". Readers resolve by id, so every field, list element, map key and map value has one; maps with
// int keys are arrays of pairs with the logical type "map" (Appendix A, "Avro"). Optional fields that are always
// null here are written all the same: some readers look them up by name.

const (
	optionalInt   = `["null","int"]`
	optionalLong  = `["null","long"]`
	optionalBytes = `["null","bytes"]`
)

func avroField(name, typ, id string) string {
	def := ""
	if strings.HasPrefix(typ, `["null"`) {
		def = `,"default":null`
	}
	return `{"name":"` + name + `","type":` + typ + def + `,"field-id":` + id + `}`
}

func avroRecord(name string, fields ...string) string {
	return `{"type":"record","name":"` + name + `","fields":[` + strings.Join(fields, ",") + `]}`
}

func avroOptional(typ string) string { return `["null",` + typ + `]` }

func avroList(element, elementID string) string {
	return avroOptional(`{"type":"array","items":` + element + `,"element-id":` + elementID + `}`)
}

// avroMap is a map with int keys: its record is named after the ids of key and value, as in Java's writer.
func avroMap(value, keyID, valueID string) string {
	pair := avroRecord("k"+keyID+"_v"+valueID, avroField("key", `"int"`, keyID), avroField("value", value, valueID))
	return avroOptional(`{"type":"array","logicalType":"map","items":` + pair + `}`)
}

// ManifestSchema answers the Avro schema of manifest entries, with the Avro schema of the partition tuple in it: for
// writers of manifests of other tables.
func ManifestSchema(formatVersion int, partition string) string {
	file := []string{
		avroField("content", `"int"`, "134"),
		avroField("file_path", `"string"`, "100"),
		avroField("file_format", `"string"`, "101"),
		avroField("partition", partition, "102"),
		avroField("record_count", `"long"`, "103"),
		avroField("file_size_in_bytes", `"long"`, "104"),
		avroField("column_sizes", avroMap(`"long"`, "117", "118"), "108"),
		avroField("value_counts", avroMap(`"long"`, "119", "120"), "109"),
		avroField("null_value_counts", avroMap(`"long"`, "121", "122"), "110"),
		avroField("nan_value_counts", avroMap(`"long"`, "138", "139"), "137"),
		avroField("lower_bounds", avroMap(`"bytes"`, "126", "127"), "125"),
		avroField("upper_bounds", avroMap(`"bytes"`, "129", "130"), "128"),
		avroField("key_metadata", optionalBytes, "131"),
		avroField("split_offsets", avroList(`"long"`, "133"), "132"),
		avroField("equality_ids", avroList(`"int"`, "136"), "135"),
		avroField("sort_order_id", optionalInt, "140"),
	}
	if formatVersion >= V3 {
		file = append(file, avroField("first_row_id", optionalLong, "142"))
	}
	file = append(file, avroField("referenced_data_file", avroOptional(`"string"`), "143"))
	if formatVersion >= V3 {
		file = append(file,
			avroField("content_offset", optionalLong, "144"),
			avroField("content_size_in_bytes", optionalLong, "145"))
	}
	return avroRecord("manifest_entry",
		avroField("status", `"int"`, "0"),
		avroField("snapshot_id", optionalLong, "1"),
		avroField("sequence_number", optionalLong, "3"),
		avroField("file_sequence_number", optionalLong, "4"),
		avroField("data_file", avroRecord("r2", file...), "2"))
}

// ManifestListSchema answers the Avro schema of the lines of a manifest list.
func ManifestListSchema(formatVersion int) string {
	summary := avroRecord("r508",
		avroField("contains_null", `"boolean"`, "509"),
		avroField("contains_nan", avroOptional(`"boolean"`), "518"),
		avroField("lower_bound", optionalBytes, "510"),
		avroField("upper_bound", optionalBytes, "511"))
	fields := []string{
		avroField("manifest_path", `"string"`, "500"),
		avroField("manifest_length", `"long"`, "501"),
		avroField("partition_spec_id", `"int"`, "502"),
		avroField("content", `"int"`, "517"),
		avroField("sequence_number", `"long"`, "515"),
		avroField("min_sequence_number", `"long"`, "516"),
		avroField("added_snapshot_id", `"long"`, "503"),
		avroField("added_files_count", `"int"`, "504"),
		avroField("existing_files_count", `"int"`, "505"),
		avroField("deleted_files_count", `"int"`, "506"),
		avroField("added_rows_count", `"long"`, "512"),
		avroField("existing_rows_count", `"long"`, "513"),
		avroField("deleted_rows_count", `"long"`, "514"),
		avroField("partitions", avroList(summary, "508"), "507"),
		avroField("key_metadata", optionalBytes, "519"),
	}
	if formatVersion >= V3 {
		fields = append(fields, avroField("first_row_id", optionalLong, "520"))
	}
	return avroRecord("manifest_file", fields...)
}
