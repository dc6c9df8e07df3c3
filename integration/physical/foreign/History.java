import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.UpdatePartitionSpec;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

/** A table under the history that a seed draws. An existing table goes on from where it is. */
final class History {
    private final Shape shape;
    private final Random random;
    private final Rows rows;
    private final Table table;
    private final Schema first;
    private final Map<String, Integer> done = new TreeMap<>();
    private DataFiles files;

    History(RESTCatalog catalog, Namespace namespace, Shape shape) {
        this.shape = shape;
        this.random = new Random(shape.seed());
        this.rows = new Rows(shape, random);
        TableIdentifier name = TableIdentifier.of(namespace, shape.name());
        if (!catalog.tableExists(name)) {
            Schema schema = Rows.schema(!shape.widen());
            catalog.buildTable(name, schema)
                    .withPartitionSpec(spec(schema, shape.partition()))
                    .withProperty(TableProperties.FORMAT_VERSION, Integer.toString(shape.version()))
                    .create();
        }
        this.table = catalog.loadTable(name);
        this.first = table.schemas().get(0);
    }

    ObjectNode run() throws IOException {
        for (int n = 0; n < shape.commits(); n++) {
            table.refresh();
            milestones(n);
            files = new DataFiles(table, "s" + shape.seed() + "-c" + n, shape.slashes());
            commit(n);
        }
        table.refresh();
        ObjectNode line = Foreign.JSON.createObjectNode().put("table", shape.name()).put("seed", shape.seed());
        line.put("snapshot", table.currentSnapshot().snapshotId());
        line.set("done", Foreign.JSON.valueToTree(done));
        return line;
    }

    /** What happens to schema, specs and version, at fixed times. */
    private void milestones(int n) {
        if (shape.upgrade() > 0 && n == shape.commits() / 4) {
            table.updateProperties().set(TableProperties.FORMAT_VERSION, Integer.toString(shape.upgrade())).commit();
        }
        if (n == shape.commits() / 2) {
            if (shape.rename() != null) {
                table.updateSchema().renameColumn(shape.rename(), shape.rename() + "_renamed").commit();
            }
            if (shape.widen()) {
                table.updateSchema()
                        .updateColumn(nameOf("id"), Types.LongType.get())
                        .updateColumn("amount", Types.DecimalType.of(20, 3))
                        .commit();
            }
        }
        if (shape.drop() && n == shape.commits() * 3 / 4 && table.schema().findField("day") != null) {
            table.updateSchema().deleteColumn("day").commit();
        }
        for (int i = 0; i < shape.evolve().size(); i++) {
            if (n == shape.commits() * (i + 1) / (shape.evolve().size() + 1)) {
                evolve(shape.evolve().get(i));
            }
        }
        table.refresh();
    }

    /** Today's name of a column. */
    private String nameOf(String firstName) {
        return table.schema().findColumnName(first.findField(firstName).fieldId());
    }

    private static PartitionSpec spec(Schema schema, String columns) {
        PartitionSpec.Builder builder = PartitionSpec.builderFor(schema);
        for (String column : columns.split(",")) {
            switch (column) {
                case "" -> { }
                case "region" -> builder.identity("region");
                case "bucket" -> builder.bucket("id", 3);
                case "day" -> builder.identity("day");
                default -> throw new IllegalArgumentException("partition by " + column);
            }
        }
        return builder.build();
    }

    private void evolve(String columns) {
        UpdatePartitionSpec update = table.updateSpec();
        table.spec().fields().forEach(f -> update.removeField(f.name()));
        for (String column : columns.split(",")) {
            switch (column) {
                case "" -> { }
                case "region" -> update.addField(nameOf("region"));
                case "bucket" -> update.addField(Expressions.bucket(nameOf("id"), 3));
                case "day" -> update.addField(nameOf("day"));
                default -> throw new IllegalArgumentException("partition by " + column);
            }
        }
        update.commit();
    }

    private void commit(int n) throws IOException {
        int version = ((HasTableOperations) table).operations().current().formatVersion();
        int draw = n < 2 || version < 2 ? 0 : random.nextInt(100);
        if (draw < 10) {
            append();
        } else if (draw < 20 && shape.positions()) {
            positions(version);
        } else if (draw < 26 && shape.remove()) {
            remove();
        } else if (draw < 40 && shape.global()) {
            deletes(table.specs().get(0), "global");
        } else if (draw < 50) {
            deletes(table.spec(), "delete");
        } else {
            upsert(version);
        }
    }

    private void append() throws IOException {
        count("append");
        var append = table.newAppend();
        for (DataFile file : write(draw(2 * shape.rows()))) {
            append.appendFile(file);
        }
        append.commit();
    }

    private List<Record> draw(int most) {
        List<Record> drawn = new ArrayList<>();
        for (int i = 1 + random.nextInt(most); i > 0; i--) {
            drawn.add(rows.row(table.schema()));
        }
        return drawn;
    }

    private FileFormat format() {
        return FileFormat.fromString(shape.formats().get(random.nextInt(shape.formats().size())));
    }

    private List<DataFile> write(List<Record> drawn) throws IOException {
        List<DataFile> written = new ArrayList<>();
        for (Map.Entry<StructLike, List<Record>> part : files.byPartition(table.spec(), drawn).entrySet()) {
            written.add(files.data(format(), table.spec(), part.getKey(), part.getValue()));
        }
        return written;
    }

    private Set<Integer> keys() {
        List<List<String>> sets = shape.keys().stream()
                .filter(set -> set.stream().allMatch(column -> table.schema().findField(first.findField(column).fieldId()) != null))
                .toList();
        return Rows.ids(first, random.nextInt(3) > 0 ? sets.get(0) : sets.get(random.nextInt(sets.size())));
    }

    /** Deletes without rows, in the partitions of drawn rows or in that of an unpartitioned spec. */
    private void deletes(PartitionSpec spec, String what) throws IOException {
        count(what);
        RowDelta delta = table.newRowDelta();
        for (Map.Entry<StructLike, List<Record>> part : files.byPartition(spec, draw(1 + shape.rows() / 2)).entrySet()) {
            delta.addDeletes(files.equality(deleteFormat(), spec, part.getKey(), keys(), part.getValue()));
        }
        delta.commit();
    }

    /** Equality deletes are not written as ORC here: the library's readers take it, hardly any other does. */
    private FileFormat deleteFormat() {
        FileFormat format = format();
        return format == FileFormat.ORC ? FileFormat.PARQUET : format;
    }

    /** Rows, and deletes of what older rows have their keys, in one commit. */
    private void upsert(int version) throws IOException {
        count("upsert");
        Set<Integer> keys = keys();
        RowDelta delta = table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId());
        List<DataFiles.Position> superseded = new ArrayList<>();
        for (Map.Entry<StructLike, List<Record>> part : files.byPartition(table.spec(), draw(shape.rows())).entrySet()) {
            List<Record> written = new ArrayList<>(part.getValue());
            List<Integer> old = new ArrayList<>();
            for (int i = 0; shape.twice() && i < part.getValue().size(); i++) {
                if (random.nextInt(4) == 0) {
                    written.add(rows.again(part.getValue().get(i)));
                    old.add(i);
                }
            }
            DataFile file = files.data(format(), table.spec(), part.getKey(), written);
            delta.addRows(file);
            delta.addDeletes(files.equality(deleteFormat(), table.spec(), part.getKey(), keys, part.getValue()));
            if (!old.isEmpty() && random.nextInt(3) > 0) {
                old.forEach(i -> superseded.add(new DataFiles.Position(file, i)));
            }
        }
        if (!superseded.isEmpty()) {
            count("twice");
            deletePositions(delta, version, superseded, Map.of());
        }
        delta.commit();
    }

    private void deletePositions(RowDelta delta, int version, List<DataFiles.Position> rows, Map<String, List<DeleteFile>> before) throws IOException {
        if (version >= 3) {
            DeleteWriteResult result = files.vectors(rows, before);
            result.deleteFiles().forEach(delta::addDeletes);
            result.rewrittenDeleteFiles().forEach(delta::removeDeletes);
            return;
        }
        Map<String, List<DataFiles.Position>> parts = new TreeMap<>(); // one file may hold several data files of a partition
        boolean shared = random.nextBoolean();
        for (DataFiles.Position p : rows) {
            String part = shared ? p.file().specId() + " " + p.file().partition() : p.file().location();
            parts.computeIfAbsent(part, k -> new ArrayList<>()).add(p);
        }
        for (List<DataFiles.Position> part : parts.values()) {
            delta.addDeletes(files.positions(deleteFormat(), part));
        }
    }

    /** Deletes rows of older files by position. */
    private void positions(int version) throws IOException {
        Map<String, List<DeleteFile>> before = new HashMap<>();
        List<DataFiles.Position> rows = new ArrayList<>();
        for (FileScanTask task : tasks()) {
            if (random.nextInt(6) > 0) {
                continue;
            }
            List<DeleteFile> held = new ArrayList<>(task.deletes());
            held.removeIf(d -> d.content() == FileContent.EQUALITY_DELETES);
            before.put(task.file().location(), held);
            Set<Long> chosen = new HashSet<>();
            for (int i = 1 + random.nextInt(3); i > 0; i--) {
                chosen.add((long) random.nextInt((int) task.file().recordCount()));
            }
            chosen.forEach(row -> rows.add(new DataFiles.Position(task.file(), row)));
        }
        if (rows.isEmpty()) {
            return;
        }
        count("positions");
        // Without the snapshot, the library takes every vector that there ever was for one added meanwhile.
        RowDelta delta = table.newRowDelta().validateFromSnapshot(table.currentSnapshot().snapshotId());
        deletePositions(delta, version, rows, before);
        delta.commit();
    }

    private List<FileScanTask> tasks() throws IOException {
        List<FileScanTask> tasks = new ArrayList<>();
        try (CloseableIterable<FileScanTask> planned = table.newScan().planFiles()) {
            planned.forEach(tasks::add);
        }
        tasks.sort((a, b) -> a.file().location().compareTo(b.file().location()));
        return tasks;
    }

    /** Removes a data file. */
    private void remove() throws IOException {
        List<FileScanTask> tasks = tasks();
        if (tasks.size() < 4) {
            return;
        }
        count("remove");
        table.newDelete().deleteFile(tasks.get(random.nextInt(tasks.size())).file()).commit();
    }

    private void count(String what) {
        done.merge(what, 1, Integer::sum);
    }
}
