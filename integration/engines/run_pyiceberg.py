"""Reads served tables with PyIceberg."""
import protocol
from pyiceberg.catalog import load_catalog


def connect(catalogs):
    def load(spec):
        options = {"type": "rest", "uri": spec["uri"], "warehouse": spec["warehouse"]}
        if spec.get("token"):
            options["token"] = spec["token"]
        options.update(spec.get("properties", {}))
        return load_catalog("frazil", **options)

    opened = {}

    def ask(query):
        name = query["catalog"]
        if name not in opened:
            opened[name] = load(catalogs[name])
        options = {}
        if query.get("snapshot"):
            options["snapshot_id"] = query["snapshot"]
        if query.get("where"):
            options["row_filter"] = query["where"]
        table = opened[name].load_table(query["table"])
        if query.get("tag"):
            options["snapshot_id"] = table.snapshot_by_name(query["tag"]).snapshot_id
        scan = table.scan(**options)
        if query.get("count"):
            return scan.count()
        table = scan.to_arrow()
        return table.column_names, zip(*(c.to_pylist() for c in table.columns)) if table.num_rows else []

    return ask


protocol.serve(connect)
