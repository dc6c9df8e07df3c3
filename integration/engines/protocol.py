"""What the runners have in common: a job on standard input, one line of JSON for each answer on standard output.

Job: {"catalogs": {name: {"uri", "warehouse", "token", "properties"}},
      "queries": [{"id", "catalog", "table", "snapshot", "tag", "where", "count"}]}
"snapshot" is a snapshot id and "tag" the name of a tag for time travel, "where" a filter in SQL, "count" asks for the
number of rows only. "properties" are what the catalog does not tell of the store, under Iceberg's names. Spark takes
"sql", a statement, instead of a table.
Answer: {"id", "columns", "rows"} with rows spelt by canonical, {"id", "count"}, or {"id", "error"}.
"""
import json
import sys
import urllib.request

import canonical


def tagged(spec, query):
    """The snapshot that a query travels to, for an engine whose SQL has no word for tags: its id, or None."""
    if not query.get("tag"):
        return query.get("snapshot")
    namespace, table = query["table"].split(".")
    url = f"{spec['uri']}/v1/{spec['warehouse']}/namespaces/{namespace}/tables/{table}"
    request = urllib.request.Request(url, headers={"Authorization": "Bearer " + spec["token"]} if spec.get("token") else {})
    with urllib.request.urlopen(request) as response:
        return json.load(response)["metadata"]["refs"][query["tag"]]["snapshot-id"]


def serve(answer):
    """Answers every query with answer(query): a number, or column names and an iterable of tuples."""
    job = json.load(sys.stdin)
    ask = answer(job["catalogs"])
    for query in job["queries"]:
        try:
            got = ask(query)
            if isinstance(got, int):
                out = {"count": got}
            else:
                columns, rows = got
                out = {"columns": columns, "rows": [[canonical.value(v) for v in row] for row in rows]}
        except Exception as e:  # an engine's refusal is an answer
            out = {"error": f"{type(e).__name__}: {e}"[:4000]}
        print(json.dumps({"id": query["id"], **out}), flush=True)
