import java.io.File;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.globalindex.GlobalIndexBuilderUtils;
import org.apache.paimon.globalindex.GlobalIndexSingletonWriter;
import org.apache.paimon.globalindex.btree.BTreeGlobalIndexBuilder;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.CompactIncrement;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.Range;

/** Writes tables of the engine into warehouse/java.db: java -cp ... Make.java DIRECTORY. */
public final class Make {
    static final Integer[] NUMBERS = {5, -5, null, 100, 0, 127, -128, 7, 7, null, 42, 1};
    static final Double[] FLOATS = {
        1.0, Double.NaN, -0.0, 5.0, 0.0, Double.NEGATIVE_INFINITY, Double.POSITIVE_INFINITY, null, -3.25, 1e-30
    };
    static final String[] TEXTS = {"", "\u00e9", "zzzz", null, "text", "te", "teyt", "\uD834\uDD1E"};

    public static void main(String[] args) throws Exception {
        Path warehouse = Path.of(args[0], "warehouse");
        Catalog catalog =
                CatalogFactory.createCatalog(
                        CatalogContext.create(new org.apache.paimon.fs.Path(warehouse.toUri())));
        catalog.createDatabase("java", true);
        StringBuilder answers = new StringBuilder("{");
        for (String compression : List.of("none", "zstd", "lz4", "lzo")) {
            FileStoreTable table = create(catalog, "btree_" + compression, compression);
            append(table, 0, 50);
            append(table, 50, 50);
            for (DataField field : table.rowType().getFields()) {
                btree(table, field.name());
            }
            append(table, 100, 20);
            note(table, "btree_" + compression, answers);
        }
        FileStoreTable table = create(catalog, "bitmap", "none");
        append(table, 0, 60);
        for (String column : List.of("b", "i", "i64", "s", "c", "day", "t3", "t6", "l3", "f", "d")) {
            bitmap(table, column, 60);
        }
        append(table, 60, 20);
        note(table, "bitmap", answers);
        Files.writeString(warehouse.resolve("java.json"), answers.append("\n}\n"));
    }

    static FileStoreTable create(Catalog catalog, String name, String compression) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        schema.column("b", DataTypes.BOOLEAN());
        schema.column("i8", DataTypes.TINYINT());
        schema.column("i16", DataTypes.SMALLINT());
        schema.column("i", DataTypes.INT());
        schema.column("i64", DataTypes.BIGINT());
        schema.column("f", DataTypes.FLOAT());
        schema.column("d", DataTypes.DOUBLE());
        schema.column("dec", DataTypes.DECIMAL(10, 2));
        schema.column("dec38", DataTypes.DECIMAL(38, 10));
        schema.column("s", DataTypes.STRING());
        schema.column("c", DataTypes.CHAR(4));
        schema.column("day", DataTypes.DATE());
        schema.column("clock", DataTypes.TIME());
        schema.column("t3", DataTypes.TIMESTAMP(3));
        schema.column("t6", DataTypes.TIMESTAMP(6));
        schema.column("t9", DataTypes.TIMESTAMP(9));
        schema.column("l3", DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(3));
        schema.column("l6", DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(6));
        Map.of(
                        "bucket", "-1",
                        "row-tracking.enabled", "true",
                        "data-evolution.enabled", "true",
                        "metadata.stats-mode", "none",
                        "btree-index.compression", compression,
                        "btree-index.block-size", "256 b",
                        "btree-index.records-per-range", "40")
                .forEach(schema::option);
        Identifier identifier = Identifier.create("java", name);
        catalog.createTable(identifier, schema.build(), false);
        return (FileStoreTable) catalog.getTable(identifier);
    }

    static void append(FileStoreTable table, int start, int count) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            for (int at = start; at < start + count; at++) {
                write.write(row(at));
            }
            commit.commit(write.prepareCommit());
        }
    }

    static InternalRow row(int at) {
        Integer n = NUMBERS[at * at % NUMBERS.length];
        Double f = FLOATS[at % FLOATS.length];
        String text = TEXTS[at % TEXTS.length];
        BinaryString string = text == null ? null : BinaryString.fromString(text);
        long second = at % 3 == 0 ? -1_001 : 1_700_000_000_123L;
        Timestamp time =
                n == null ? null : Timestamp.fromEpochMillis(second + n * (at % 5), (n & 127) * 7_001 % 1_000_000);
        Timestamp micros =
                time == null
                        ? null
                        : Timestamp.fromEpochMillis(
                                time.getMillisecond(), time.getNanoOfMillisecond() / 1000 * 1000);
        Timestamp millis = time == null ? null : Timestamp.fromEpochMillis(time.getMillisecond());
        return GenericRow.of(
                n == null ? null : n % 2 == 0,
                n == null ? null : n.byteValue(),
                n == null ? null : n.shortValue(),
                n,
                at % 17 == 0 ? null : at * 1_000_000_000_000_000L - 30_000_000_000_000_000L,
                f == null ? null : f.floatValue(),
                f,
                n == null ? null : Decimal.fromBigDecimal(BigDecimal.valueOf(n, 2), 10, 2),
                n == null
                        ? null
                        : Decimal.fromBigDecimal(
                                BigDecimal.valueOf(n).scaleByPowerOfTen(14).add(BigDecimal.valueOf(n, 10)), 38, 10),
                string,
                text == null ? null : BinaryString.fromString(at % 2 == 0 ? text : (text + "    ").substring(0, 4)),
                n,
                n == null ? null : (n + 128) * 1000 + n,
                millis,
                micros,
                time,
                millis,
                micros);
    }

    static void btree(FileStoreTable table, String column) throws Exception {
        BTreeGlobalIndexBuilder builder = new BTreeGlobalIndexBuilder(table).withIndexField(column);
        File directory = Files.createTempDirectory("global-index").toFile();
        List<CommitMessage> messages = new ArrayList<>();
        for (DataSplit split : BTreeGlobalIndexBuilder.splitByContiguousRowRange(builder.scan().get().getRight())) {
            messages.addAll(builder.build(split, IOManager.create(directory.getPath())));
        }
        commit(table, messages);
    }

    static void bitmap(FileStoreTable table, String column, int rows) throws Exception {
        DataField field = table.rowType().getField(column);
        GlobalIndexSingletonWriter writer =
                (GlobalIndexSingletonWriter)
                        GlobalIndexBuilderUtils.createIndexWriter(
                                table, "bitmap", field, table.coreOptions().toConfiguration());
        RowType read = table.rowType().project(List.of(column));
        InternalRow.FieldGetter getter = InternalRow.createFieldGetter(field.type(), 0);
        ReadBuilder reading = table.newReadBuilder().withReadType(read);
        try (RecordReader<InternalRow> reader = reading.newRead().createReader(reading.newScan().plan())) {
            reader.forEachRemaining(row -> writer.write(getter.getFieldOrNull(row)));
        }
        List<IndexFileMeta> files =
                GlobalIndexBuilderUtils.toIndexFileMetas(
                        table.fileIO(),
                        table.store().pathFactory().globalIndexFileFactory(),
                        table.coreOptions(),
                        new Range(0, rows - 1),
                        field.id(),
                        "bitmap",
                        writer.finish());
        commit(
                table,
                List.of(
                        new CommitMessageImpl(
                                BinaryRow.EMPTY_ROW,
                                0,
                                null,
                                DataIncrement.indexIncrement(files),
                                CompactIncrement.emptyIncrement())));
    }

    static void commit(FileStoreTable table, List<CommitMessage> messages) throws Exception {
        try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) {
            commit.commit(messages);
        }
    }

    static void note(FileStoreTable table, String name, StringBuilder answers) throws Exception {
        PredicateBuilder builder = new PredicateBuilder(table.rowType());
        int i = table.rowType().getFieldIndex("i"), s = table.rowType().getFieldIndex("s");
        int wide = table.rowType().getFieldIndex("i64");
        Map<String, Predicate> asked = new java.util.TreeMap<>();
        asked.put("i = 7", builder.equal(i, 7));
        asked.put("i > 5", builder.greaterThan(i, 5));
        asked.put("i IS NULL", builder.isNull(i));
        asked.put("i IS NOT NULL", builder.isNotNull(i));
        asked.put("s = 'te'", builder.equal(s, BinaryString.fromString("te")));
        asked.put("s IN ('te', '')", builder.in(s, List.of(BinaryString.fromString("te"), BinaryString.fromString(""))));
        asked.put("i64 <= 0", builder.lessOrEqual(wide, 0L));
        asked.put("i <> 7", builder.notEqual(i, 7));
        answers.append(answers.length() > 1 ? ",\n" : "\n").append('"').append(name).append("\": {");
        String comma = "\n ";
        for (Map.Entry<String, Predicate> each : asked.entrySet()) {
            RowType read = SpecialFields.rowTypeWithRowId(table.rowType()).project(List.of("_ROW_ID"));
            ReadBuilder reading = table.newReadBuilder().withFilter(each.getValue()).withReadType(read);
            TreeSet<Long> ids = new TreeSet<>();
            try (RecordReader<InternalRow> reader = reading.newRead().createReader(reading.newScan().plan())) {
                reader.forEachRemaining(row -> ids.add(row.getLong(0)));
            } catch (RuntimeException error) {
                System.err.println(name + ": " + each.getKey() + ": " + error);
                continue;
            }
            answers.append(comma).append('"').append(each.getKey()).append("\": ").append(ids);
            comma = ",\n ";
        }
        answers.append("}");
    }
}
