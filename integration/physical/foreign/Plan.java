import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.ManifestReader;
import org.apache.iceberg.Table;
import org.apache.iceberg.io.CloseableIterable;

/** What the library plans to read of a table: the deletes that it holds against each data file. */
final class Plan {
    private Plan() {}

    static ObjectNode of(Table table) throws IOException {
        long units = 0;
        long touched = 0;
        long worstKeys = 0;
        Map<String, Long> fanout = new HashMap<>();
        try (CloseableIterable<FileScanTask> tasks = table.newScan().planFiles()) {
            for (FileScanTask task : tasks) {
                long keys = 0;
                boolean any = false;
                for (DeleteFile delete : task.deletes()) {
                    if (delete.content() == FileContent.EQUALITY_DELETES) {
                        keys += delete.recordCount();
                        any = true;
                        fanout.merge(delete.location(), 1L, Long::sum);
                    }
                }
                units += keys;
                worstKeys = Math.max(worstKeys, keys);
                touched += any ? 1 : 0;
            }
        }
        ObjectNode line = Foreign.JSON.createObjectNode();
        equalityFiles(table, line.putArray("equality_files"));
        return line.put("table", table.name().substring(table.name().lastIndexOf('.') + 1))
                .put("probe_units", units)
                .put("data_files_touched", touched)
                .put("worst_fanout", fanout.values().stream().mapToLong(Long::longValue).max().orElse(0))
                .put("worst_keys_per_data_file", worstKeys);
    }

    /** All live equality delete files, those too that no data file meets any more. */
    private static void equalityFiles(Table table, ArrayNode paths) throws IOException {
        for (ManifestFile manifest : table.currentSnapshot().deleteManifests(table.io())) {
            try (ManifestReader<DeleteFile> files = ManifestFiles.readDeleteManifest(manifest, table.io(), table.specs())) {
                for (DeleteFile file : files) {
                    if (file.content() == FileContent.EQUALITY_DELETES) {
                        paths.add(file.location());
                    }
                }
            }
        }
    }
}
