"""One query in a DuckDB that has just started. A job as JSON on standard input: {"uri", "warehouse", "credential",
"s3", "key", "secret", "sql"}; all but uri, warehouse and sql may be missing. "t." in the query is the catalog.
Answers {"seconds", "cpu", "rows"}: attaching the catalog is counted, loading the extensions is not."""
import glob
import json
import os
import sys
import time

import duckdb

job = json.load(sys.stdin)
con = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
site = os.path.dirname(os.path.dirname(duckdb.__file__))
for extension in ("avro", "httpfs", "iceberg"):
    path = glob.glob(f"{site}/duckdb_extension_{extension}/extensions/v*/{extension}.duckdb_extension")[0]
    con.execute(f"LOAD '{path}'")
how = "AUTHORIZATION_TYPE 'none'"
if job.get("credential"):
    name, secret = job["credential"].split(":")
    con.execute(
        f"CREATE SECRET plain (TYPE iceberg, CLIENT_ID '{name}', CLIENT_SECRET '{secret}', "
        f"OAUTH2_SERVER_URI '{job['uri']}/v1/oauth/tokens')"
    )
    con.execute(
        f"CREATE SECRET store (TYPE s3, KEY_ID '{job['key']}', SECRET '{job['secret']}', REGION 'us-east-1', "
        f"ENDPOINT '{job['s3'].removeprefix('http://')}', URL_STYLE 'path', USE_SSL false)"
    )
    how = "SECRET plain"
began, computed = time.perf_counter(), time.process_time()
con.execute(f"ATTACH '{job['warehouse']}' AS t (TYPE iceberg, ENDPOINT '{job['uri']}', {how})")
rows = con.execute(job["sql"]).fetchall()
seconds, cpu = time.perf_counter() - began, time.process_time() - computed
print(json.dumps({"seconds": seconds, "cpu": cpu, "rows": [[str(v) for v in row] for row in rows]}))
