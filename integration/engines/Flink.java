import java.math.BigDecimal;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.JsonNode;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.flink.shaded.jackson2.com.fasterxml.jackson.databind.node.ObjectNode;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/** Reads served tables with Flink. Job and answers are those of protocol.py, the values are spelt as canonical.py says. */
public class Flink {
    static final ObjectMapper JSON = new ObjectMapper();
    static final DateTimeFormatter MICROS = DateTimeFormatter.ofPattern("yyyy-MM-dd'T'HH:mm:ss.SSSSSS");

    public static void main(String[] args) throws Exception {
        JsonNode job = JSON.readTree(System.in);
        Configuration conf = new Configuration();
        conf.setString("parallelism.default", "1");
        conf.setString("taskmanager.numberOfTaskSlots", "2");
        conf.setString("classloader.check-leaked-classloader", "false");
        conf.setString("table.local-time-zone", "UTC");
        TableEnvironment flink =
                TableEnvironment.create(EnvironmentSettings.newInstance().inBatchMode().withConfiguration(conf).build());
        for (Map.Entry<String, JsonNode> catalog : job.get("catalogs").properties()) {
            JsonNode spec = catalog.getValue();
            String token = spec.hasNonNull("token") ? ", 'token'='" + spec.get("token").asText() + "'" : "";
            flink.executeSql("CREATE CATALOG " + catalog.getKey() + " WITH ('type'='iceberg', 'catalog-type'='rest', 'uri'='"
                    + spec.get("uri").asText() + "', 'warehouse'='" + spec.get("warehouse").asText()
                    + "', 'io-impl'='org.apache.iceberg.aws.s3.S3FileIO', 'cache-enabled'='false'" + token + ")");
        }
        for (JsonNode query : job.get("queries")) {
            ObjectNode answer = JSON.createObjectNode().put("id", query.get("id").asText());
            try {
                ask(flink, query, answer);
            } catch (Exception e) { // an engine's refusal is an answer
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                answer.put("error", cause.toString());
            }
            System.out.println(JSON.writeValueAsString(answer));
        }
        System.exit(0); // the engine's threads do not end by themselves
    }

    static void ask(TableEnvironment flink, JsonNode query, ObjectNode answer) throws Exception {
        boolean count = query.path("count").asBoolean();
        String sql = "SELECT " + (count ? "count(*)" : "*") + " FROM " + query.get("catalog").asText() + "." + query.get("table").asText();
        if (query.path("snapshot").asLong() != 0) {
            sql += " /*+ OPTIONS('snapshot-id'='" + query.get("snapshot").asLong() + "') */";
        }
        if (!query.path("tag").asText().isEmpty()) {
            sql += " /*+ OPTIONS('tag'='" + query.get("tag").asText() + "') */";
        }
        if (!query.path("where").asText().isEmpty()) {
            sql += " WHERE " + query.get("where").asText();
        }
        TableResult result = flink.executeSql(sql);
        List<List<Object>> rows = new ArrayList<>();
        try (CloseableIterator<Row> it = result.collect()) {
            while (it.hasNext()) {
                Row row = it.next();
                if (count) {
                    answer.put("count", (Long) row.getField(0));
                    return;
                }
                List<Object> values = new ArrayList<>();
                for (int i = 0; i < row.getArity(); i++) {
                    values.add(canonical(row.getField(i)));
                }
                rows.add(values);
            }
        }
        answer.set("columns", JSON.valueToTree(result.getResolvedSchema().getColumnNames()));
        answer.set("rows", JSON.valueToTree(rows));
    }

    static Object canonical(Object v) {
        if (v == null || v instanceof Boolean || v instanceof Integer || v instanceof Long || v instanceof String) {
            return v;
        } else if (v instanceof Double || v instanceof Float) {
            return "f:" + v;
        } else if (v instanceof BigDecimal d) {
            return "d:" + d.toPlainString();
        } else if (v instanceof byte[] b) {
            return "b:" + HexFormat.of().formatHex(b);
        } else if (v instanceof Instant at) {
            return "tz:" + MICROS.format(at.atOffset(ZoneOffset.UTC));
        } else if (v instanceof LocalDateTime at) {
            return "ts:" + MICROS.format(at);
        } else if (v instanceof LocalDate day) {
            return "date:" + day;
        }
        throw new IllegalArgumentException("no spelling for " + v.getClass());
    }
}
