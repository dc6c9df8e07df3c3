"""What the runners have in common: a job on standard input, one line of JSON for each answer on standard output.

Job: {"catalogs": {name: {"uri", "warehouse", "token"}},
      "queries": [{"id", "catalog", "table", "snapshot", "where", "count"}]}
"snapshot" is a snapshot id for time travel, "where" a filter in SQL, "count" asks for the number of rows only.
Answer: {"id", "columns", "rows"} with rows spelt by canonical, {"id", "count"}, or {"id", "error"}.
"""
import json
import sys

import canonical


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
