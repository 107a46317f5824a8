import java.io.File;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.function.IntFunction;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactCoordinator;
import org.apache.paimon.append.dataevolution.DataEvolutionCompactTask;
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
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.io.DataIncrement;
import org.apache.paimon.manifest.IndexManifestEntry;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.schema.SchemaChange;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.SpecialFields;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.sink.CommitMessage;
import org.apache.paimon.table.sink.CommitMessageImpl;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.EndOfScanException;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.Range;

/**
 * Writes tables of the engine into warehouse/java.db: java -cp ... Make.java DIRECTORY [changes|answers].
 *
 * <p>changes: tables that change after their indexes were built. answers: what the engine reads of such tables.
 */
public final class Make {
    static final String EXTERNAL = "file:/tmp/global-indexes";
    static final String[] CHANGED = {"n = 3", "n >= 15", "n IS NULL", "s = 's1'", "s IS NULL"};

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
        if (args.length > 1) {
            if (args[1].equals("changes")) {
                changes(catalog);
            } else {
                Files.writeString(warehouse.resolve("changed_java.json"), changedAnswers(catalog, args));
            }
            return;
        }
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
            TreeSet<Long> ids;
            try {
                ids = read(table, each.getValue());
            } catch (RuntimeException error) {
                System.err.println(name + ": " + each.getKey() + ": " + error);
                continue;
            }
            answers.append(comma).append('"').append(each.getKey()).append("\": ").append(ids);
            comma = ",\n ";
        }
        answers.append("}");
    }

    /** Row ids that the engine reads by a filter. */
    static TreeSet<Long> read(FileStoreTable table, Predicate predicate) throws Exception {
        RowType read = SpecialFields.rowTypeWithRowId(table.rowType()).project(List.of("_ROW_ID"));
        ReadBuilder reading = table.newReadBuilder().withFilter(predicate).withReadType(read);
        TreeSet<Long> ids = new TreeSet<>();
        try (RecordReader<InternalRow> reader = reading.newRead().createReader(reading.newScan().plan())) {
            reader.forEachRemaining(row -> ids.add(row.getLong(0)));
        }
        return ids;
    }

    /** Tables of an int n and a text s, whose rows, files or columns change after the build. */
    static void changes(Catalog catalog) throws Exception {
        FileStoreTable table = changing(catalog, "external", Map.of("global-index.external-path", EXTERNAL));
        numbers(table, 0, 10);
        numbers(table, 10, 10);
        btree(table, "n");
        btree(table, "s");

        table = changing(catalog, "forty_files", Map.of("btree-index.records-per-range", "4"));
        for (int at = 0; at < 160; at += 40) {
            numbers(table, at, 40);
        }
        btree(table, "n");
        btree(table, "s");

        // Files become one, rows keep their ids, entries stay.
        table = changing(catalog, "compacted", Map.of());
        for (int at = 0; at < 40; at += 10) {
            numbers(table, at, 10);
        }
        btree(table, "n");
        btree(table, "s");
        compact(table);

        // Two of three partial files become one, then others are appended.
        table = changing(catalog, "compacted_partly", Map.of());
        numbers(table, 0, 10);
        numbers(table, 10, 10);
        btree(table, "n");
        compact(table);
        numbers(table, 20, 10);
        numbers(table, 30, 10);
        btree(table, "s");

        // A column without an index is updated, and the files become one.
        table = changing(catalog, "updated_and_compacted", Map.of());
        numbers(table, 0, 10);
        numbers(table, 10, 10);
        btree(table, "n");
        update(table, "s", 0, 10, at -> BinaryString.fromString("u" + at % 3));
        compact(table);
        numbers(table, 20, 10);

        // A column is updated behind its index, which is dropped and built anew.
        table = changing(catalog, "updated_and_rebuilt", Map.of());
        numbers(table, 0, 10);
        numbers(table, 10, 10);
        btree(table, "n");
        btree(table, "s");
        update(table, "n", 0, 10, at -> at + 1000);
        drop(table, "n");
        btree(table, "n");

        // As before, but the index is left as it was.
        table = changing(catalog, "updated", Map.of());
        numbers(table, 0, 10);
        numbers(table, 10, 10);
        btree(table, "n");
        btree(table, "s");
        update(table, "n", 0, 10, at -> at + 1000);

        // A column is dropped, and another one added that has its name.
        table = changing(catalog, "column_anew", Map.of());
        numbers(table, 0, 10);
        btree(table, "n");
        btree(table, "s");
        catalog.alterTable(table(catalog, "column_anew"), List.of(SchemaChange.dropColumn("s")), false);
        catalog.alterTable(
                table(catalog, "column_anew"), List.of(SchemaChange.addColumn("s", DataTypes.STRING())), false);
        numbers((FileStoreTable) catalog.getTable(table(catalog, "column_anew")), 10, 10);

        // The type is another one, and the index of before is there.
        table = changing(catalog, "type_changed", Map.of());
        numbers(table, 0, 10);
        btree(table, "n");
        btree(table, "s");
        catalog.alterTable(
                table(catalog, "type_changed"),
                List.of(SchemaChange.updateColumnType("n", DataTypes.BIGINT())),
                false);
        numbers((FileStoreTable) catalog.getTable(table(catalog, "type_changed")), 10, 10);
    }

    static Identifier table(Catalog catalog, String name) {
        return Identifier.create("java", name);
    }

    static FileStoreTable changing(Catalog catalog, String name, Map<String, String> options) throws Exception {
        Schema.Builder schema = Schema.newBuilder();
        schema.column("n", DataTypes.INT());
        schema.column("s", DataTypes.STRING());
        Map.of(
                        "bucket", "-1",
                        "row-tracking.enabled", "true",
                        "data-evolution.enabled", "true",
                        "metadata.stats-mode", "none",
                        "compaction.min.file-num", "2")
                .forEach(schema::option);
        options.forEach(schema::option);
        catalog.createTable(table(catalog, name), schema.build(), false);
        return (FileStoreTable) catalog.getTable(table(catalog, name));
    }

    static void numbers(FileStoreTable table, int start, int count) throws Exception {
        List<String> names = table.rowType().getFieldNames();
        boolean isWide = table.rowType().getField("n").type().is(org.apache.paimon.types.DataTypeRoot.BIGINT);
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            for (int at = start; at < start + count; at++) {
                GenericRow row = new GenericRow(names.size());
                Object number = at % 7 == 6 ? null : isWide ? (Object) (long) at : (Object) at;
                row.setField(names.indexOf("n"), number);
                row.setField(names.indexOf("s"), at % 5 == 4 ? null : BinaryString.fromString("s" + at % 4));
                write.write(row);
            }
            commit.commit(write.prepareCommit());
        }
    }

    /** Writes a column of rows anew, into a file of its own. */
    static void update(FileStoreTable table, String column, int start, int count, IntFunction<Object> value)
            throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            write.withWriteType(table.rowType().project(List.of(column)));
            for (int at = start; at < start + count; at++) {
                write.write(GenericRow.of(value.apply(at)));
            }
            List<CommitMessage> messages = write.prepareCommit();
            for (CommitMessage message : messages) {
                List<DataFileMeta> files = ((CommitMessageImpl) message).newFilesIncrement().newFiles();
                files.replaceAll(file -> file.assignFirstRowId(start));
            }
            commit.commit(messages);
        }
    }

    static void compact(FileStoreTable table) throws Exception {
        DataEvolutionCompactCoordinator coordinator = new DataEvolutionCompactCoordinator(table, false, false);
        List<CommitMessage> messages = new ArrayList<>();
        try {
            while (true) {
                for (DataEvolutionCompactTask task : coordinator.plan()) {
                    messages.add(task.doCompact(table, "compaction"));
                }
            }
        } catch (EndOfScanException end) {
            commit(table, messages);
        }
    }

    static void drop(FileStoreTable table, String column) throws Exception {
        int id = table.rowType().getField(column).id();
        List<IndexFileMeta> files = new ArrayList<>();
        for (IndexManifestEntry entry : table.store().newIndexFileHandler().scanEntries()) {
            if (entry.indexFile().globalIndexMeta().indexFieldId() == id) {
                files.add(entry.indexFile());
            }
        }
        commit(
                table,
                List.of(
                        new CommitMessageImpl(
                                BinaryRow.EMPTY_ROW,
                                0,
                                null,
                                DataIncrement.deleteIndexIncrement(files),
                                CompactIncrement.emptyIncrement())));
    }

    static String changedAnswers(Catalog catalog, String[] arguments) throws Exception {
        StringBuilder answers = new StringBuilder("{");
        for (int at = 2; at < arguments.length; at++) {
            String[] parts = arguments[at].split("\\.");
            FileStoreTable table = (FileStoreTable) catalog.getTable(Identifier.create(parts[0], parts[1]));
            PredicateBuilder builder = new PredicateBuilder(table.rowType());
            int n = table.rowType().getFieldIndex("n"), s = table.rowType().getFieldIndex("s");
            boolean isWide = table.rowType().getField("n").type().is(org.apache.paimon.types.DataTypeRoot.BIGINT);
            Predicate[] predicates = {
                builder.equal(n, isWide ? (Object) 3L : (Object) 3),
                builder.greaterOrEqual(n, isWide ? (Object) 15L : (Object) 15),
                builder.isNull(n),
                builder.equal(s, BinaryString.fromString("s1")),
                builder.isNull(s)
            };
            answers.append(at > 2 ? ",\n" : "\n").append('"').append(arguments[at]).append("\": {");
            String comma = "\n ";
            for (int asked = 0; asked < predicates.length; asked++) {
                try {
                    TreeSet<Long> ids = read(table, predicates[asked]);
                    answers.append(comma).append('"').append(CHANGED[asked]).append("\": ").append(ids);
                    comma = ",\n ";
                } catch (RuntimeException error) {
                    System.err.println(arguments[at] + ": " + CHANGED[asked] + ": " + error);
                }
            }
            answers.append("}");
        }
        return answers.append("\n}\n").toString();
    }
}
