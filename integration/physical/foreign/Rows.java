import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.HashSet;
import java.util.List;
import java.util.Random;
import java.util.Set;
import org.apache.iceberg.Schema;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.types.Types;

/** The rows of the tables. */
final class Rows {
    private static final OffsetDateTime BEGIN = OffsetDateTime.of(2026, 11, 1, 0, 0, 0, 0, ZoneOffset.UTC);
    private static final String[] REGIONS = {"eu", "us", "ap"};

    private final Shape shape;
    private final Random random;
    private long version;

    Rows(Shape shape, Random random) {
        this.shape = shape;
        this.random = random;
    }

    static Schema schema(boolean wide) {
        return new Schema(
                Types.NestedField.optional(1, "id", wide ? Types.LongType.get() : Types.IntegerType.get()),
                Types.NestedField.optional(2, "region", Types.StringType.get()),
                Types.NestedField.optional(3, "name", Types.StringType.get()),
                Types.NestedField.optional(4, "who", Types.StructType.of(
                        Types.NestedField.optional(9, "num", Types.LongType.get()),
                        Types.NestedField.optional(10, "tag", Types.StringType.get()))),
                Types.NestedField.optional(5, "v", Types.LongType.get()),
                Types.NestedField.optional(6, "amount", Types.DecimalType.of(12, 3)),
                Types.NestedField.optional(7, "seen", Types.TimestampType.withZone()),
                Types.NestedField.optional(8, "day", Types.DateType.get()));
    }

    /** Ids of columns by their first names; a column keeps its id when it is renamed. */
    static Set<Integer> ids(Schema first, List<String> names) {
        Set<Integer> ids = new HashSet<>();
        names.forEach(n -> ids.add(first.findField(n).fieldId()));
        return ids;
    }

    /** A row with a drawn key. Every row differs from all others in v. */
    Record row(Schema schema) {
        int id = random.nextInt(shape.space());
        GenericRecord row = GenericRecord.create(schema);
        List<Types.NestedField> columns = schema.columns();
        set(row, columns, 0, columns.get(0).type().typeId() == org.apache.iceberg.types.Type.TypeID.LONG ? (Object) (long) id : (Object) id);
        set(row, columns, 1, REGIONS[random.nextInt(REGIONS.length)]);
        set(row, columns, 2, "n" + random.nextInt(1 + shape.space() / 3));
        GenericRecord who = GenericRecord.create(columns.get(3).type().asStructType());
        // Never 0: of two keys of a delete file that are inner structs, the library (1.12.0) keeps one if they have the same
        // hash, as 0 and null have. It then reads rows that are deleted.
        who.setField("num", shape.nulls() && random.nextInt(8) == 0 ? null : (Object) (long) (1 + random.nextInt(shape.space())));
        who.setField("tag", "t" + random.nextInt(3));
        set(row, columns, 3, who);
        row.set(4, version++);
        row.set(5, new BigDecimal(random.nextInt(1_000_000)).movePointLeft(3));
        row.set(6, BEGIN.plusSeconds(random.nextInt(2_000_000)).plusNanos(1000L * random.nextInt(1_000_000)));
        LocalDate day = LocalDate.of(2026, 11, 1 + random.nextInt(5));
        if (columns.size() > 7) {
            set(row, columns, 7, day);
        }
        return row;
    }

    /** Key columns are null now and then if the shape says so. */
    private void set(GenericRecord row, List<Types.NestedField> columns, int i, Object value) {
        row.set(i, shape.nulls() && random.nextInt(8) == 0 ? null : value);
    }

    /** Another version of a row: the same in all columns that may be keys. */
    Record again(Record row) {
        Record next = row.copy();
        next.set(4, version++);
        next.set(5, new BigDecimal(random.nextInt(1_000_000)).movePointLeft(3));
        return next;
    }
}
