"""Reads served tables with Spark. SPARK_JARS names the Iceberg runtime and its AWS bundle, separated by commas."""
import datetime
import os
import sys

os.environ["TZ"] = "UTC"

import protocol
from pyspark.sql import SparkSession
from pyspark.sql.types import ArrayType, StructType, TimestampType


def connect(catalogs):
    conf = {
        "spark.jars": os.environ["SPARK_JARS"],
        "spark.driver.memory": "1200m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    for name, spec in catalogs.items():
        conf.update({
            f"spark.sql.catalog.{name}": "org.apache.iceberg.spark.SparkCatalog",
            f"spark.sql.catalog.{name}.type": "rest",
            f"spark.sql.catalog.{name}.uri": spec["uri"],
            f"spark.sql.catalog.{name}.warehouse": spec["warehouse"],
            f"spark.sql.catalog.{name}.cache-enabled": "false",
            f"spark.sql.catalog.{name}.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        })
        if spec.get("token"):
            conf[f"spark.sql.catalog.{name}.token"] = spec["token"]
        for key, setting in spec.get("properties", {}).items():
            conf[f"spark.sql.catalog.{name}.{key}"] = setting
    builder = SparkSession.builder.master("local[2]").appName("frazil-integration")
    for key, setting in conf.items():
        builder = builder.config(key, setting)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")

    def ask(query):
        what = "count(*)" if query.get("count") else "*"
        sql = f"SELECT {what} FROM {query['catalog']}.{query['table']}"
        if query.get("snapshot"):
            sql += f" VERSION AS OF {query['snapshot']}"
        if query.get("tag"):
            sql += f" VERSION AS OF '{query['tag']}'"
        if query.get("where"):
            sql += f" WHERE {query['where']}"
        frame = spark.sql(query.get("sql") or sql)
        if query.get("count"):
            return frame.collect()[0][0]
        types = [f.dataType for f in frame.schema.fields]
        return frame.columns, [[zoned(t, v) for t, v in zip(types, row)] for row in frame.collect()]

    return ask


def zoned(kind, v):
    """Instants come as datetimes without a zone, in the session's, which is UTC."""
    if v is None:
        return None
    if isinstance(kind, TimestampType):
        return v.replace(tzinfo=datetime.timezone.utc)
    if isinstance(kind, ArrayType):
        return [zoned(kind.elementType, x) for x in v]
    if isinstance(kind, StructType):
        return {f.name: zoned(f.dataType, x) for f, x in zip(kind.fields, v)}
    return v


# Spark's launcher writes to standard output, where the answers go: it gets standard error instead.
answers = os.dup(1)
os.dup2(2, 1)
sys.stdout = os.fdopen(answers, "w")
protocol.serve(connect)
