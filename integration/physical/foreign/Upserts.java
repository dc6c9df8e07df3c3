import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

/**
 * Upserts and deletes by key while others work on the same table. It remembers the newest value of every key: what the
 * table must hold in the end.
 *
 * <p>Job: {"table", "seed", "commits", "rows", "space", "version", "partitioned", "pause_ms", "stop", "live", "odd", "branch"};
 * once there is a file "stop", it ends before it has made all commits. With "live", what an earlier run said of the same
 * table, it goes on with that table. The line that goes out holds "live", pairs of id and value.
 */
final class Upserts {
    private static final String RETRIES = "100";

    private final JsonNode job;
    private final Random random;
    private final Table table;
    private final Map<Long, Long> live = new TreeMap<>();
    private long value;

    Upserts(RESTCatalog catalog, Namespace namespace, JsonNode job) {
        this.job = job;
        this.random = new Random(job.get("seed").asLong());
        TableIdentifier name = TableIdentifier.of(namespace, job.get("table").asText());
        if (job.has("live")) {
            this.table = catalog.loadTable(name);
            for (JsonNode pair : job.get("live")) {
                live.put(pair.get(0).asLong(), pair.get(1).asLong());
                value = Math.max(value, pair.get(1).asLong() + 1);
            }
            return;
        }
        Schema schema = new Schema(
                Types.NestedField.required(1, "id", Types.LongType.get()),
                Types.NestedField.required(2, "shard", Types.IntegerType.get()),
                Types.NestedField.required(3, "v", Types.LongType.get()));
        PartitionSpec spec = PartitionSpec.unpartitioned();
        if (job.get("partitioned").asBoolean()) {
            spec = PartitionSpec.builderFor(schema).identity("shard").build();
        }
        this.table = catalog.buildTable(name, schema)
                .withPartitionSpec(spec)
                .withProperty(TableProperties.FORMAT_VERSION, job.get("version").asText())
                .withProperty(TableProperties.COMMIT_NUM_RETRIES, RETRIES)
                .withProperty(TableProperties.COMMIT_MIN_RETRY_WAIT_MS, "20")
                .withProperty(TableProperties.COMMIT_MAX_RETRY_WAIT_MS, "500")
                .create();
    }

    ObjectNode run() throws IOException, InterruptedException {
        JsonNode stop = job.path("stop");
        for (int n = 0; n < job.get("commits").asInt() && !(stop.isTextual() && Files.exists(Path.of(stop.asText()))); n++) {
            commit(n);
            Thread.sleep(job.path("pause_ms").asInt()); // the pace of a writer with checkpoints, not a wait
        }
        ObjectNode line = Foreign.JSON.createObjectNode().put("table", job.get("table").asText());
        ArrayNode rows = line.putArray("live");
        live.forEach((id, v) -> rows.addArray().add(id).add(v));
        return line;
    }

    private void commit(int n) throws IOException {
        table.refresh();
        DataFiles files = new DataFiles(table, "u" + job.get("seed").asLong() + "-" + n, false);
        Map<Long, Record> keys = new LinkedHashMap<>();
        List<Record> written = new ArrayList<>();
        for (int i = job.get("rows").asInt(); i > 0; i--) {
            long id = random.nextInt(job.get("space").asInt());
            id = job.has("odd") ? 2 * id + job.get("odd").asInt() : id;
            GenericRecord row = GenericRecord.create(table.schema());
            row.set(0, id);
            row.set(1, (int) (id % 4));
            row.set(2, value);
            if (keys.putIfAbsent(id, row) != null) {
                continue;
            }
            if (random.nextInt(10) == 0) { // a delete
                live.remove(id);
            } else {
                live.put(id, value++);
                written.add(row);
            }
        }
        RowDelta delta = table.newRowDelta().toBranch(job.path("branch").asText(SnapshotRef.MAIN_BRANCH));
        for (Map.Entry<StructLike, List<Record>> part : files.byPartition(table.spec(), written).entrySet()) {
            delta.addRows(files.data(FileFormat.PARQUET, table.spec(), part.getKey(), part.getValue()));
        }
        for (Map.Entry<StructLike, List<Record>> part : files.byPartition(table.spec(), keys.values()).entrySet()) {
            delta.addDeletes(files.equality(FileFormat.PARQUET, table.spec(), part.getKey(), Set.of(1), part.getValue()));
        }
        delta.commit();
    }
}
