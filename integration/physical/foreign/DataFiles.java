import java.io.IOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionKey;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.StructLike;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.BaseDeleteLoader;
import org.apache.iceberg.data.GenericFileWriterFactory;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.InternalRecordWrapper;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.deletes.BaseDVFileWriter;
import org.apache.iceberg.deletes.EqualityDeleteWriter;
import org.apache.iceberg.deletes.PositionDelete;
import org.apache.iceberg.deletes.PositionDeleteWriter;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.io.DeleteWriteResult;
import org.apache.iceberg.io.OutputFileFactory;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/** Writes the files of one table at one time of its life. */
final class DataFiles {
    private final Table table;
    private final String operation;
    private final boolean slashes;
    private final Map<FileFormat, OutputFileFactory> names = new LinkedHashMap<>();

    /**
     * @param operation part of the files' names, unique in the table
     * @param slashes as in {@link Shape}
     */
    DataFiles(Table table, String operation, boolean slashes) {
        this.table = table;
        this.operation = operation;
        this.slashes = slashes;
    }

    private EncryptedOutputFile newFile(FileFormat format, PartitionSpec spec, StructLike partition) {
        return spec.isUnpartitioned() && !slashes ? names(format).newOutputFile() : names(format).newOutputFile(spec, partition);
    }

    /** Rows by their partition, in the order of their first one. */
    Map<StructLike, List<Record>> byPartition(PartitionSpec spec, Collection<Record> rows) {
        Map<StructLike, List<Record>> parts = new LinkedHashMap<>();
        InternalRecordWrapper wrapper = new InternalRecordWrapper(table.schema().asStruct());
        for (Record row : rows) {
            PartitionKey key = new PartitionKey(spec, table.schema());
            key.partition(wrapper.wrap(row));
            parts.computeIfAbsent(key, k -> new ArrayList<>()).add(row);
        }
        return parts;
    }

    DataFile data(FileFormat format, PartitionSpec spec, StructLike partition, List<Record> rows) throws IOException {
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table).dataFileFormat(format).dataSchema(table.schema()).build();
        DataWriter<Record> writer = factory.newDataWriter(newFile(format, spec, partition), spec, partition);
        try (writer) {
            rows.forEach(writer::write);
        }
        return writer.toDataFile();
    }

    /** A file that deletes the rows whose values in some columns are those of the given ones. */
    DeleteFile equality(FileFormat format, PartitionSpec spec, StructLike partition, Set<Integer> ids, List<Record> rows) throws IOException {
        Schema keys = TypeUtil.select(table.schema(), ids);
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table)
                .deleteFileFormat(format)
                .equalityFieldIds(ids.stream().mapToInt(Integer::intValue).toArray())
                .equalityDeleteRowSchema(keys)
                .build();
        EqualityDeleteWriter<Record> writer = factory.newEqualityDeleteWriter(newFile(format, spec, partition), spec, partition);
        try (writer) {
            for (Record row : rows) {
                writer.write(project(row, keys.asStruct()));
            }
        }
        return writer.toDeleteFile();
    }

    private static Record project(Record row, Types.StructType to) {
        GenericRecord out = GenericRecord.create(to);
        for (Types.NestedField field : to.fields()) {
            Object value = row.getField(field.name());
            if (field.type().isStructType() && value != null) {
                value = project((Record) value, field.type().asStructType());
            }
            out.setField(field.name(), value);
        }
        return out;
    }

    /** A row of a data file. */
    record Position(DataFile file, long row) {}

    /** A position delete file, over as many data files as there are in the list; all must be of one spec and partition. */
    DeleteFile positions(FileFormat format, List<Position> rows) throws IOException {
        DataFile first = rows.get(0).file();
        PartitionSpec spec = table.specs().get(first.specId());
        GenericFileWriterFactory factory = new GenericFileWriterFactory.Builder(table).deleteFileFormat(format).build();
        PositionDeleteWriter<Record> writer =
                factory.newPositionDeleteWriter(newFile(format, spec, first.partition()), spec, first.partition());
        try (writer) {
            PositionDelete<Record> row = PositionDelete.create();
            rows.stream()
                    .sorted((a, b) -> {
                        int byPath = a.file().location().compareTo(b.file().location());
                        return byPath != 0 ? byPath : Long.compare(a.row(), b.row());
                    })
                    .forEach(p -> writer.write(row.set(p.file().location(), p.row())));
        }
        return writer.toDeleteFile();
    }

    /** Deletion vectors that hold what the data files' deletes by position held before, and the rows. */
    DeleteWriteResult vectors(List<Position> rows, Map<String, List<DeleteFile>> before) throws IOException {
        BaseDeleteLoader loader = new BaseDeleteLoader(file -> table.io().newInputFile(file.location(), file.fileSizeInBytes()));
        BaseDVFileWriter writer = new BaseDVFileWriter(names(FileFormat.PUFFIN), path -> {
            List<DeleteFile> held = before.getOrDefault(path, List.of());
            return held.isEmpty() ? null : loader.loadPositionDeletes(held, path);
        });
        try (writer) {
            for (Position p : rows) {
                writer.delete(p.file().location(), p.row(), table.specs().get(p.file().specId()), p.file().partition());
            }
        }
        return writer.result();
    }

    private OutputFileFactory names(FileFormat format) {
        return names.computeIfAbsent(format, f -> OutputFileFactory.builderFor(table, 1, 1).format(f).operationId(operation).build());
    }
}
