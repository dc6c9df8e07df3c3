"""Statements to one Spark session. A job on standard input, on the first line: {"uri", "properties", "driver_memory"}; the
catalog is called "lake". SPARK_JARS names the Iceberg runtime and its AWS bundle, separated by commas. The first answer
is {"pid"}, of the JVM. Then each line is {"sql"}, answered by {"seconds", "rows"} or {"error"}, in a line each."""
import json
import os
import sys
import time

from pyspark.sql import SparkSession

answers = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)  # Spark's launcher writes to standard output


def answer(value):
    print(json.dumps(value), file=answers, flush=True)


job = json.loads(sys.stdin.readline())
conf = {
    "spark.jars": os.environ["SPARK_JARS"],
    "spark.driver.memory": job["driver_memory"],
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "spark.sql.catalog.lake": "org.apache.iceberg.spark.SparkCatalog",
    "spark.sql.catalog.lake.type": "rest",
    "spark.sql.catalog.lake.uri": job["uri"],
    "spark.sql.catalog.lake.cache-enabled": "false",
    "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
}
for key, setting in job["properties"].items():
    conf[f"spark.sql.catalog.lake.{key}"] = setting
builder = SparkSession.builder.master("local[2]").appName("frazil-bench")
for key, setting in conf.items():
    builder = builder.config(key, setting)
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
answer({"pid": spark.sparkContext._gateway.proc.pid})
for line in sys.stdin:
    began = time.perf_counter()
    try:
        rows = spark.sql(json.loads(line)["sql"]).collect()
        answer({"seconds": time.perf_counter() - began, "rows": [[str(v) for v in row] for row in rows]})
    except Exception as e:
        answer({"error": f"{type(e).__name__}: {e}"[:4000]})
