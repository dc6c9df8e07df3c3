"""Reads served tables with ClickHouse, which chDB runs in this process.

Instants come as text, since ClickHouse's JSON has no other form for them; a column's type says which ones they are.
"""
import datetime
import json
import os

import protocol
from chdb import session


def connect(catalogs):
    clickhouse = session.Session()
    clickhouse.query("SET allow_experimental_database_iceberg = 1")
    # An Int64 is a number and not text; nothing is answered from what an earlier query has read.
    clickhouse.query("SET output_format_json_quote_64bit_integers = 0")
    attached = set()

    def attach(name):
        spec = catalogs[name]
        settings = f"catalog_type = 'rest', warehouse = '{spec['warehouse']}'"
        if spec.get("token"):
            settings += f", auth_header = 'Authorization: Bearer {spec['token']}'"
        clickhouse.query(f"CREATE DATABASE {name} ENGINE = DataLakeCatalog('{spec['uri']}/v1') SETTINGS {settings}")

    def ask(query):
        if query["catalog"] not in attached:
            attach(query["catalog"])
            attached.add(query["catalog"])
        what = "count()" if query.get("count") else "*"
        sql = f"SELECT {what} FROM {query['catalog']}.`{query['table']}`"
        if query.get("where"):
            sql += f" WHERE {query['where']}"
        snapshot = protocol.tagged(catalogs[query["catalog"]], query)
        if snapshot:
            sql += f" SETTINGS iceberg_snapshot_id = {snapshot}"
        lines = str(clickhouse.query(sql, "JSONCompactEachRowWithNamesAndTypes")).splitlines()
        names, types, rows = json.loads(lines[0]), json.loads(lines[1]), [json.loads(line) for line in lines[2:]]
        if query.get("count"):
            return rows[0][0]
        return names, [[value(t, v) for t, v in zip(types, row)] for row in rows]

    return ask


def value(kind, v):
    if v is not None and "DateTime64" in kind:
        zone = datetime.timezone.utc if "UTC" in kind else None
        return datetime.datetime.fromisoformat(v).replace(tzinfo=zone)
    return v


protocol.serve(connect)
os._exit(0)  # the engine's threads do not end by themselves
