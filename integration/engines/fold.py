"""The oracle: the dullest fold of a topic there is. It shares no code with the decoders that it judges.

Job on standard input: {"registry": path of a registry dump or null,
  "topics": [{"id", "file", "drop": [offsets left out], "ends": [offset, ...]}]}
A record's offset is its rank among those that are not left out. For every end the fold of the records below it is one
answer line: {"id", "end", "columns", "rows"}, rows spelt by canonical, by ascending offset.
"""
import base64
import datetime
import decimal
import io
import json
import re
import struct
import sys

import canonical
import fastavro

MAGIC = 0


def text(b):
    return None if b is None else base64.b64decode(b)


# --- what a value means, by the name that the connector gave its type ---

def scaled(unscaled, scale):
    return decimal.Decimal(unscaled).scaleb(-scale, decimal.Context(prec=200))


def from_bytes(b):
    return int.from_bytes(b, "big", signed=True)


def zoned(s):
    """An ISO-8601 text with a zone, as an instant."""
    m = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d)", s)
    base = datetime.datetime.fromisoformat(m[1] + (m[3].replace("Z", "+00:00")))
    return base + datetime.timedelta(microseconds=int((m[2] or "").ljust(6, "0")[:6]))


def meaning(name, v, scale=None):
    """The table's value of a non-null value, as a Python value."""
    if name == "org.apache.kafka.connect.data.Decimal":
        return v if isinstance(v, decimal.Decimal) else scaled(from_bytes(v), scale)
    if name == "io.debezium.data.VariableScaleDecimal":
        return format(scaled(from_bytes(v["value"]), v["scale"]), "f")
    if name == "io.debezium.time.Date":
        return (canonical.EPOCH + datetime.timedelta(days=v)).date()
    if name == "io.debezium.time.Timestamp":
        return canonical.micros(v * 1000)
    if name == "io.debezium.time.MicroTimestamp":
        return canonical.micros(v)
    if name == "io.debezium.time.ZonedTimestamp":
        return zoned(v)
    return v  # times of day and durations stay numbers; JSON, UUIDs and the like stay text


def single(v):
    """A double that was a single-precision number."""
    return struct.unpack("f", struct.pack("f", v))[0]


# --- JSON with Connect's schema beside the payload ---

def connect_value(schema, v):
    if v is None:
        return None
    name, kind = schema.get("name"), schema["type"]
    if kind == "bytes":
        v = base64.b64decode(v)
        scale = int((schema.get("parameters") or {}).get("scale", 0))
        return meaning(name, v, scale)
    if kind == "struct":
        fields = {f["field"]: connect_value(f, v.get(f["field"])) for f in schema["fields"]}
        return meaning(name, fields)
    if kind == "array":
        return [connect_value(schema["items"], x) for x in v]
    if kind == "float":
        return single(float(v))
    if kind == "double":
        return float(v)
    return meaning(name, v)


# --- JSON without a schema ---

def plain(v):
    if isinstance(v, (dict, list)):
        return json.dumps(v, separators=(",", ":"), ensure_ascii=False)
    return v


# --- Avro in the registry's wire format ---

class Registry:
    def __init__(self, path):
        entries = json.load(open(path)) if path else []
        self.schemas = {e["id"]: json.loads(e["schema"]) for e in entries if not e.get("schemaType")}
        self.parsed = {}

    def decode(self, b):
        """The writer's schema and the value."""
        assert b[0] == MAGIC, "not the registry's wire format"
        number = int.from_bytes(b[1:5], "big")
        schema = self.schemas[number]
        if number not in self.parsed:
            self.parsed[number] = fastavro.parse_schema(json.loads(json.dumps(schema)))
        return schema, fastavro.schemaless_reader(io.BytesIO(b[5:]), self.parsed[number], None)


def avro_value(schema, v, names, space=""):
    """Walks the schema as it was registered, since parsing drops Connect's attributes."""
    if isinstance(schema, list):
        branches = [b for b in schema if b != "null"]
        for b in branches:
            collect(b, names, space)
        return None if v is None else avro_value(branches[0], v, names, space)
    if isinstance(schema, str):
        named = names.get(schema) or names.get(f"{space}.{schema}")
        return v if named is None else avro_value(named, v, names, space)
    collect(schema, names, space)
    kind, name = schema["type"], schema.get("connect.name")
    if isinstance(kind, (dict, list)):
        return avro_value(kind, v, names, space)
    if kind == "record":
        space = schema.get("namespace", space)
        fields = {f["name"]: avro_value(f["type"], v[f["name"]], names, space) for f in schema["fields"]}
        return meaning(name, fields)
    if kind == "array":
        return [avro_value(schema["items"], x, names, space) for x in v]
    if name is None and isinstance(v, decimal.Decimal):
        name = "org.apache.kafka.connect.data.Decimal"
    return meaning(name, v)


def collect(schema, names, space):
    """Notes a named type, so that a later mention by name finds it."""
    if isinstance(schema, dict) and schema.get("type") in ("record", "enum", "fixed"):
        space = schema.get("namespace", space)
        names[schema["name"]] = schema
        names[f"{space}.{schema['name']}"] = schema
        for f in schema.get("fields", []):
            branches = f["type"] if isinstance(f["type"], list) else [f["type"]]
            for b in branches:
                collect(b, names, space)


# --- the fold ---

class Topic:
    """Decodes the keys and values of one topic."""

    def __init__(self, registry):
        self.registry = registry

    def key(self, b):
        if b is None:
            return None
        if b[:1] == bytes([MAGIC]):
            schema, v = self.registry.decode(b)
            return json.dumps(canonical.value(avro_value(schema, v, {})), sort_keys=True)
        v = json.loads(b)
        if set(v) == {"schema", "payload"}:
            v = v["payload"]
        return json.dumps(v, sort_keys=True)

    def event(self, b):
        """Operation and row; the row has its columns in order."""
        if b is None:
            return "d", None
        if b[:1] == bytes([MAGIC]):
            schema, v = self.registry.decode(b)
            names = {}
            collect(schema, names, "")
            after = next(f["type"] for f in schema["fields"] if f["name"] == "after")
            space = schema.get("namespace", "")
            return v["op"], None if v["after"] is None else avro_value(after, v["after"], names, space)
        v = json.loads(b)
        if set(v) == {"schema", "payload"}:
            after = next(f for f in v["schema"]["fields"] if f["field"] == "after")
            return v["payload"]["op"], connect_value(after, v["payload"]["after"])
        after = v["after"]
        return v["op"], None if after is None else {k: plain(x) for k, x in after.items()}


def fold(topic, records, end):
    live, columns = {}, []
    for offset, record in enumerate(records[:end]):
        key = topic.key(text(record["key_b64"]))
        op, row = topic.event(text(record["value_b64"]))
        assert key is not None, f"record {offset} has no key"
        if op == "d":
            live.pop(key, None)
        elif op in ("c", "r", "u"):
            columns += [c for c in row if c not in columns]
            live[key] = {"kafka_partition": 0, "kafka_offset": offset, "kafka_timestamp": canonical.instant(record["ts"] * 1000), **row}
        else:
            raise AssertionError(f"record {offset} has operation {op}")
    columns = ["kafka_partition", "kafka_offset", "kafka_timestamp"] + columns
    rows = sorted(live.values(), key=lambda r: r["kafka_offset"])
    return columns, [[canonical.value(r.get(c)) for c in columns] for r in rows]


def main():
    job = json.load(sys.stdin)
    topic = Topic(Registry(job.get("registry")))
    for t in job["topics"]:
        records = [json.loads(line) for line in open(t["file"])]
        records = [r for r in records if r["offset"] not in t.get("drop", [])]
        for end in t["ends"]:
            columns, rows = fold(topic, records, end)
            print(json.dumps({"id": t["id"], "end": end, "columns": columns, "rows": rows}))


main()
