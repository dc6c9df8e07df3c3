"""Reads served tables with a Trino server that runs at TRINO_PORT. Its catalogs are configured under their names."""
import os

import protocol
import trino


def connect(catalogs):
    connection = trino.dbapi.connect(host="127.0.0.1", port=int(os.environ["TRINO_PORT"]), user="frazil", timezone="UTC")

    def ask(query):
        what = "count(*)" if query.get("count") else "*"
        sql = f"SELECT {what} FROM {query['catalog']}.{query['table']}"
        if query.get("snapshot"):
            sql += f" FOR VERSION AS OF {query['snapshot']}"
        if query.get("tag"):
            sql += f" FOR VERSION AS OF '{query['tag']}'"
        if query.get("where"):
            sql += f" WHERE {query['where']}"
        cursor = connection.cursor()
        cursor.execute(sql)
        rows = cursor.fetchall()
        if query.get("count"):
            return rows[0][0]
        return [d[0] for d in cursor.description], rows

    return ask


protocol.serve(connect)
