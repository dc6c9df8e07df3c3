"""Writes the current rows of a served table as an ordinary compacted table. A job as JSON on standard input:
{"from": {"uri", "warehouse", "table"}, "to": {"uri", "warehouse", "credential", "s3", "key", "secret", "table"}}.
Answers {"rows", "files", "bytes"}."""
import json
import sys

from pyiceberg.catalog import load_catalog

job = json.load(sys.stdin)
source, target = job["from"], job["to"]
served = load_catalog("served", type="rest", uri=source["uri"], warehouse=source["warehouse"])
rows = served.load_table(source["table"]).scan().to_arrow()
plain = load_catalog(
    "plain",
    **{
        "type": "rest",
        "uri": target["uri"],
        "warehouse": target["warehouse"],
        "credential": target["credential"],
        "s3.endpoint": target["s3"],
        "s3.access-key-id": target["key"],
        "s3.secret-access-key": target["secret"],
        "s3.region": "us-east-1",
        "s3.path-style-access": "true",
        "s3.request-timeout": "120",
    },
)
namespace, _ = target["table"].split(".")
plain.create_namespace_if_not_exists(namespace)
table = plain.create_table(target["table"], schema=rows.schema)
table.append(rows)
files = [task.file for task in plain.load_table(target["table"]).scan().plan_files()]
print(json.dumps({"rows": rows.num_rows, "files": len(files), "bytes": sum(f.file_size_in_bytes for f in files)}))
