import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.LongFunction;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/**
 * Writes large tables with the Iceberg Java library: data files whose keys are spread over all of them, then commits with
 * equality deletes, as a sink leaves them that knows only keys.
 *
 * <p>Job: {"catalog": properties, "namespace", "table", "version", "files", "rows" of each, "commits", "keys" of each,
 * "upserts": whether a commit has a row for each of its keys, "seed"}. The line that goes out holds
 * "snapshot", "data_bytes" and "delete_bytes".
 */
public class Foreign {
    private static final String[] REGIONS = {"africa", "america", "asia", "europe", "oceania"};
    private static final String[] WORDS = {"amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heath"};
    // Numbers of keys are below this. Those of the first data files are the first ones.
    private static final long SPACE = 1L << 25;

    private final JsonNode job;
    private final Table table;
    private final Random random;
    private final GenericFileWriterFactory writers;
    private final OutputFileFactory names;
    private long dataBytes;
    private long deleteBytes;

    private Foreign(RESTCatalog catalog, Namespace namespace, JsonNode job) {
        this.job = job;
        this.random = new Random(job.get("seed").asLong());
        Schema schema = new Schema(
                Types.NestedField.required(1, "id", Types.LongType.get()),
                Types.NestedField.required(2, "region", Types.StringType.get()),
                Types.NestedField.optional(3, "name", Types.StringType.get()),
                Types.NestedField.optional(4, "amount", Types.DecimalType.of(12, 2)),
                Types.NestedField.optional(5, "v", Types.LongType.get()));
        this.table = catalog.buildTable(TableIdentifier.of(namespace, job.get("table").asText()), schema)
                .withProperty(TableProperties.FORMAT_VERSION, job.get("version").asText())
                .create();
        this.writers = new GenericFileWriterFactory.Builder(table)
                .dataFileFormat(FileFormat.PARQUET)
                .dataSchema(table.schema())
                .deleteFileFormat(FileFormat.PARQUET)
                .equalityFieldIds(new int[] {1})
                .equalityDeleteRowSchema(TypeUtil.select(table.schema(), Set.of(1)))
                .build();
        this.names = OutputFileFactory.builderFor(table, 1, 1).format(FileFormat.PARQUET).build();
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper json = new ObjectMapper();
        JsonNode job = json.readTree(System.in);
        Map<String, String> properties = new HashMap<>();
        job.get("catalog").properties().forEach(p -> properties.put(p.getKey(), p.getValue().asText()));
        properties.put("io-impl", "org.apache.iceberg.aws.s3.S3FileIO");
        try (RESTCatalog catalog = new RESTCatalog()) {
            catalog.initialize("lake", properties);
            Namespace namespace = Namespace.of(job.get("namespace").asText());
            if (!catalog.namespaceExists(namespace)) {
                catalog.createNamespace(namespace);
            }
            Foreign table = new Foreign(catalog, namespace, job);
            long snapshot = table.write();
            System.out.println(json.createObjectNode()
                    .put("snapshot", snapshot)
                    .put("data_bytes", table.dataBytes)
                    .put("delete_bytes", table.deleteBytes));
        }
    }

    private long write() throws IOException {
        int files = job.get("files").asInt();
        long rows = job.get("rows").asLong();
        AppendFiles first = table.newAppend();
        for (int f = 0; f < files; f++) {
            int file = f;
            first.appendFile(data(rows, i -> key(i * files + file)));
        }
        first.commit();
        long known = files * rows;
        int commits = job.get("commits").asInt();
        long keys = job.get("keys").asLong();
        for (int c = 0; c < commits; c++) {
            long from = c * keys;
            // Upserts mostly meet a row that is there; deletes alone are of keys that no other one has.
            List<Long> drawn = new ArrayList<>();
            boolean upserts = job.get("upserts").asBoolean();
            if (upserts) {
                random.longs(0, known + known / 10).distinct().limit(keys).forEach(n -> drawn.add(key(n)));
            }
            LongFunction<Long> key = i -> upserts ? drawn.get((int) i) : (Long) key((from + i) * 0x9E3779B1L % SPACE);
            RowDelta delta = table.newRowDelta().addDeletes(deletes(keys, key));
            if (upserts) {
                delta.addRows(data(keys, key));
            }
            delta.commit();
        }
        table.refresh();
        return table.currentSnapshot().snapshotId();
    }

    /** The key of a number: of any 64 bits, so that bounds tell no files apart. The finaliser of splitmix64. */
    private static long key(long n) {
        long z = (n ^ n >>> 30) * 0xBF58476D1CE4E5B9L;
        z = (z ^ z >>> 27) * 0x94D049BB133111EBL;
        return z ^ z >>> 31;
    }

    private DataFile data(long rows, LongFunction<Long> key) throws IOException {
        DataWriter<Record> writer = writers.newDataWriter(names.newOutputFile(), table.spec(), null);
        try (writer) {
            GenericRecord row = GenericRecord.create(table.schema());
            for (long i = 0; i < rows; i++) {
                row.set(0, key.apply(i));
                row.set(1, REGIONS[random.nextInt(REGIONS.length)]);
                row.set(2, WORDS[random.nextInt(WORDS.length)] + "-" + random.nextInt(1_000_000));
                row.set(3, BigDecimal.valueOf(random.nextInt(10_000_000), 2));
                row.set(4, random.nextLong(1L << 40));
                writer.write(row);
            }
        }
        dataBytes += writer.toDataFile().fileSizeInBytes();
        return writer.toDataFile();
    }

    private DeleteFile deletes(long keys, LongFunction<Long> key) throws IOException {
        EqualityDeleteWriter<Record> writer = writers.newEqualityDeleteWriter(names.newOutputFile(), table.spec(), null);
        try (writer) {
            GenericRecord row = GenericRecord.create(TypeUtil.select(table.schema(), Set.of(1)));
            for (long i = 0; i < keys; i++) {
                row.set(0, key.apply(i));
                writer.write(row);
            }
        }
        deleteBytes += writer.toDeleteFile().fileSizeInBytes();
        return writer.toDeleteFile();
    }
}
