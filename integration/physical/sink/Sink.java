import java.util.HashMap;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;

/**
 * Fills a table with Flink's sink in upsert mode: a stream of rows with keys that come again, with a commit for every
 * checkpoint.
 *
 * <p>Job: {"catalog": properties, "namespace", "tables": [{"name", "version", "partitioned", "rows", "per_second", "space"}]}.
 */
public class Sink {
    public static void main(String[] args) throws Exception {
        JsonNode job = new ObjectMapper().readTree(System.in);
        Configuration conf = new Configuration();
        conf.setString("parallelism.default", "1");
        conf.setString("taskmanager.numberOfTaskSlots", "2");
        conf.setString("classloader.check-leaked-classloader", "false");
        conf.setString("execution.checkpointing.interval", "300 ms");
        conf.setString("table.local-time-zone", "UTC");
        TableEnvironment flink =
                TableEnvironment.create(EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(conf).build());
        Map<String, String> properties = new HashMap<>();
        job.get("catalog").properties().forEach(p -> properties.put(p.getKey(), p.getValue().asText()));
        properties.put("type", "iceberg");
        properties.put("catalog-type", "rest");
        properties.put("io-impl", "org.apache.iceberg.aws.s3.S3FileIO");
        StringBuilder with = new StringBuilder();
        properties.forEach((k, v) -> with.append(with.length() == 0 ? "" : ", ").append("'" + k + "'='" + v + "'"));
        flink.executeSql("CREATE CATALOG lake WITH (" + with + ")");
        String namespace = "lake." + job.get("namespace").asText();
        flink.executeSql("CREATE DATABASE IF NOT EXISTS " + namespace);
        for (JsonNode table : job.get("tables")) {
            fill(flink, namespace, table);
            System.out.println("\"" + table.get("name").asText() + "\"");
        }
        System.exit(0); // the engine's threads do not end by themselves
    }

    private static void fill(TableEnvironment flink, String namespace, JsonNode table) throws Exception {
        String name = namespace + "." + table.get("name").asText();
        boolean partitioned = table.get("partitioned").asBoolean();
        // Flink's sink wants the partition's columns in the key.
        flink.executeSql("CREATE TABLE " + name + " (id BIGINT NOT NULL, shard INT NOT NULL, v BIGINT, PRIMARY KEY (id"
                + (partitioned ? ", shard" : "") + ") NOT ENFORCED)" + (partitioned ? " PARTITIONED BY (shard)" : "")
                + " WITH ('format-version'='" + table.get("version").asInt() + "', 'write.upsert.enabled'='true')");
        flink.executeSql("CREATE TEMPORARY TABLE source_" + table.get("name").asText() + " (id BIGINT, v BIGINT) WITH ('connector'='datagen', "
                + "'rows-per-second'='" + table.get("per_second").asInt() + "', 'number-of-rows'='" + table.get("rows").asInt() + "', "
                + "'fields.id.min'='0', 'fields.id.max'='" + (table.get("space").asInt() - 1) + "', 'fields.v.kind'='sequence', "
                + "'fields.v.start'='0', 'fields.v.end'='" + (table.get("rows").asInt() - 1) + "')");
        flink.executeSql("INSERT INTO " + name + " SELECT id, CAST(id % 4 AS INT), v FROM source_" + table.get("name").asText()).await();
    }
}
