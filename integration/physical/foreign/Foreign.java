import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.RESTCatalog;

/**
 * Writes tables with the Iceberg Java library, as writers do that know only keys. A job comes on standard input, a line of
 * JSON goes out for each table.
 *
 * <p>Job: {"catalog": properties, "namespace", "tables": [shape]}, with the fields of {@link Shape};
 * and "plans": [table] for what {@link Plan} says of tables after that; "upserts": [{...}] for {@link Upserts}.
 */
public class Foreign {
    private static final int TABLES_AT_ONCE = 4;
    static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws Exception {
        JsonNode job = JSON.readTree(System.in);
        Map<String, String> properties = new HashMap<>();
        job.get("catalog").properties().forEach(p -> properties.put(p.getKey(), p.getValue().asText()));
        properties.put("io-impl", "org.apache.iceberg.aws.s3.S3FileIO");
        try (RESTCatalog catalog = new RESTCatalog()) {
            catalog.initialize("lake", properties);
            Namespace namespace = Namespace.of(job.get("namespace").asText());
            try {
                catalog.createNamespace(namespace);
            } catch (RuntimeException e) {
                // An earlier program has made it, or another does right now: the catalog answers that with 500.
                if (!catalog.namespaceExists(namespace)) {
                    throw e;
                }
            }
            // A writer mostly waits for catalog and store.
            ExecutorService threads = Executors.newFixedThreadPool(TABLES_AT_ONCE);
            List<Future<ObjectNode>> tables = new ArrayList<>();
            for (JsonNode table : job.path("upserts")) {
                tables.add(threads.submit(() -> new Upserts(catalog, namespace, table).run()));
            }
            for (JsonNode node : job.path("tables")) {
                Shape shape = JSON.treeToValue(node, Shape.class);
                tables.add(threads.submit(() -> new History(catalog, namespace, shape).run()));
            }
            threads.shutdown();
            for (Future<ObjectNode> table : tables) {
                print(table.get());
            }
            for (JsonNode table : job.path("plans")) {
                print(Plan.of(catalog.loadTable(TableIdentifier.of(namespace, table.asText()))));
            }
        }
    }

    private static void print(ObjectNode line) {
        System.out.println(line);
        System.out.flush();
    }
}
