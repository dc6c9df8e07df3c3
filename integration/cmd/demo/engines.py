"""Two unmodified engines behind a line protocol: one JSON question per line in, one JSON answer per line out."""

import glob
import json
import os
import sys

import duckdb
from pyiceberg.catalog import load_catalog


def duckdb_connection(uri, warehouse):
    con = duckdb.connect()
    con.execute("SET enable_progress_bar = false")
    # The extensions come from PyPI; the usual `INSTALL iceberg; LOAD iceberg` fetches the same ones.
    for name in ("avro", "httpfs", "iceberg"):
        package = __import__("duckdb_extension_" + name)
        (path,) = glob.glob(os.path.join(package.__path__[0], "extensions", "*", name + ".duckdb_extension"))
        con.execute(f"LOAD '{path}'")
    con.execute(f"ATTACH '{warehouse}' AS frazil (TYPE iceberg, ENDPOINT '{uri}', AUTHORIZATION_TYPE 'none')")
    return con


def duckdb_rows(q):
    con = duckdb_connection(q["uri"], q["warehouse"])
    at = f" AT (VERSION => {q['snapshot']})" if q.get("snapshot") else ""
    columns = ", ".join(f'"{c}"' for c in q["columns"])
    return con.execute(f"SELECT {columns} FROM frazil.kafka.{q['table']}{at}").fetchall()


def duckdb_sql(q):
    con = duckdb_connection(q["uri"], q["warehouse"])
    result = con.execute(q["sql"])
    return {"columns": [d[0] for d in result.description], "rows": result.fetchall()}


def pyiceberg_table(q):
    catalog = load_catalog("frazil", type="rest", uri=q["uri"], warehouse=q["warehouse"])
    return catalog.load_table(("kafka", q["table"]))


def pyiceberg_rows(q):
    scan = pyiceberg_table(q).scan(selected_fields=tuple(q["columns"]), snapshot_id=q.get("snapshot") or None)
    return [[row[c] for c in q["columns"]] for row in scan.to_arrow().to_pylist()]


def pyiceberg_snapshot(q):
    return pyiceberg_table(q).current_snapshot().snapshot_id


OPERATIONS = {
    "duckdb_rows": duckdb_rows,
    "duckdb_sql": duckdb_sql,
    "pyiceberg_rows": pyiceberg_rows,
    "pyiceberg_snapshot": pyiceberg_snapshot,
}


def main():
    # Answers go to the real standard output; whatever a library prints (a progress bar) must not get among them.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        try:
            answer = {"answer": OPERATIONS[question["op"]](question)}
        except Exception as e:  # the demo prints it and fails
            answer = {"error": f"{type(e).__name__}: {e}"}
        print(json.dumps(answer, default=str), file=answers, flush=True)


main()
