"""Reads served tables with DuckDB. The extensions come as Python packages: nothing is downloaded when it runs."""
import glob
import os

import duckdb
import protocol


def connect(catalogs):
    ask = session(catalogs)

    def again(query):
        nonlocal ask
        try:
            return ask(query)
        except duckdb.InternalException:  # it takes no more queries
            ask = session(catalogs)
            raise

    return again


def session(catalogs):
    con = duckdb.connect(config={"autoinstall_known_extensions": "false", "autoload_known_extensions": "false"})
    site = os.path.dirname(os.path.dirname(duckdb.__file__))
    for extension in ("avro", "httpfs", "iceberg"):
        path = glob.glob(f"{site}/duckdb_extension_{extension}/extensions/v*/{extension}.duckdb_extension")[0]
        con.execute(f"LOAD '{path}'")
    con.execute("SET TimeZone = 'UTC'")
    attached = set()

    def attach(name):
        spec = catalogs[name]
        how = "AUTHORIZATION_TYPE 'none'"
        if spec.get("token"):
            con.execute(f"CREATE SECRET {name} (TYPE iceberg, TOKEN '{spec['token']}')")
            how = f"SECRET {name}"
        store = spec.get("properties")
        if store:
            endpoint = store["s3.endpoint"].removeprefix("http://")
            con.execute(f"CREATE SECRET {name}_store (TYPE s3, KEY_ID '{store['s3.access-key-id']}', SECRET '{store['s3.secret-access-key']}', "
                        f"REGION '{store['s3.region']}', ENDPOINT '{endpoint}', URL_STYLE 'path', USE_SSL false)")
            how += ", ACCESS_DELEGATION_MODE 'none'"
        con.execute(f"ATTACH '{spec['warehouse']}' AS {name} (TYPE iceberg, ENDPOINT '{spec['uri']}', {how})")

    def ask(query):
        if query["catalog"] not in attached:
            attach(query["catalog"])
            attached.add(query["catalog"])
        what = "count(*)" if query.get("count") else "*"
        sql = f"SELECT {what} FROM {query['catalog']}.{query['table']}"
        snapshot = protocol.tagged(catalogs[query["catalog"]], query)
        if snapshot:
            sql += f" AT (VERSION => {snapshot})"
        if query.get("where"):
            sql += f" WHERE {query['where']}"
        cursor = con.execute(sql)
        rows = cursor.fetchall()
        if query.get("count"):
            return rows[0][0]
        return [d[0] for d in cursor.description], rows

    return ask


protocol.serve(connect)
