package org.paimonindex;

import static java.util.stream.Collectors.toList;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.spark.read.PaimonSupportsRuntimeFiltering;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What the service is asked, and which scans ask nothing. */
class QuestionTest {

    @TempDir Path warehouse;

    private WebServer service;
    private Catalog catalog;

    @BeforeEach
    void start() throws Exception {
        WrittenTable.write(warehouse);
        service = new WebServer(exchange -> WebServer.send(exchange, 404, new byte[0]));
        // The engine's own cache, which makes system tables of the tables that it keeps.
        catalog =
                WrittenTable.catalog(
                        warehouse,
                        Map.of(
                                "paimon-index.uri", service.uri(),
                                "paimon-index.timeout", "60 s",
                                "paimon-index.warehouse", "a warehouse",
                                "cache-enabled", "true"));
    }

    @AfterEach
    void stop() throws Exception {
        catalog.close();
        service.close();
    }

    private Table cities() throws Exception {
        return catalog.getTable(WrittenTable.NAME);
    }

    private static Predicate city(Table table, String name) {
        int column = table.rowType().getFieldIndex("city");
        return new PredicateBuilder(table.rowType()).equal(column, BinaryString.fromString(name));
    }

    private static Map<?, ?> json(Predicate predicate) {
        return JsonSerdeUtil.fromJson(Filters.json(predicate), Map.class);
    }

    private Map<?, ?> asked() {
        assertEquals(1, service.requests.size());
        return JsonSerdeUtil.fromJson(service.requests.get(0).body, Map.class);
    }

    private void assertNotAsked(Table table) {
        table.newReadBuilder().withFilter(city(table, "Bonn")).newScan().plan();
        assertEquals(0, service.requests.size());
    }

    @Test
    void isTheFilterOfTheLatestSnapshotThatThereIs() throws Exception {
        WrittenTable.idsOf(cities(), "Bonn");

        Map<?, ?> asked = asked();
        assertEquals(0, asked.get("max_staleness_ms"));
        assertEquals(30_000, asked.get("budget_ms"));
        assertEquals(json(city(cities(), "Bonn")), asked.get("filter"));
    }

    @ParameterizedTest
    @ValueSource(strings = {"scan.snapshot-id", "scan.version"})
    void namesTheVersionThatIsRead(String option) throws Exception {
        WrittenTable.idsOf(cities().copy(Map.of(option, "2")), "Bonn");

        assertEquals(2, asked().get("snapshot_id"));
    }

    @ParameterizedTest
    @CsvSource({"a b, a%20b", "a%20b, a%2520b", "ü, %C3%BC", "a+b, a%2Bb", "a;b, a%3Bb"})
    void encodesNames(String name, String encoded) throws Exception {
        Identifier identifier = Identifier.create("demo", name);
        catalog.createTable(identifier, WrittenTable.schema(Map.of()), false);

        WrittenTable.idsOf(catalog.getTable(identifier), "Bonn");

        assertEquals(
                "/v1/a%20warehouse/databases/demo/tables/" + encoded + "/pruned-snapshot",
                service.requests.get(0).path);
    }

    @Test
    void hasTheWantedPartitionsInIt() throws Exception {
        Identifier name = Identifier.create("demo", "by_day");
        Schema schema =
                Schema.newBuilder()
                        .column("day", DataTypes.INT())
                        .column("city", DataTypes.STRING())
                        .partitionKeys("day")
                        .build();
        catalog.createTable(name, schema, false);
        Table table = catalog.getTable(name);
        RowType days = table.rowType().project(List.of("day"));
        Predicate day = new PredicateBuilder(days).in(0, List.of(7, 8));

        table.newReadBuilder()
                .withFilter(city(table, "Bonn"))
                .withPartitionFilter(PartitionPredicate.fromPredicate(days, day))
                .newScan()
                .plan();

        assertEquals(json(PredicateBuilder.and(List.of(city(table, "Bonn"), day))), asked().get("filter"));
    }

    /** As the connector's scan gives them: a partition filter over the keys that it was offered. */
    @Test
    void hasTheKeysOfAJoinWhichTheEngineDoesNotSee() throws Exception {
        Identifier name = Identifier.create("demo", "by_day");
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("city", DataTypes.STRING())
                        .column("day", DataTypes.INT())
                        .partitionKeys("day")
                        .option("file-index.bloom-filter.columns", "city")
                        .build();
        catalog.createTable(name, schema, false);
        Table table = catalog.getTable(name);
        RowType offered = table.rowType().project(List.of("day", "city"));
        assertEquals(offered.getFieldNames(), RuntimeKeys.of(((FileStoreTable) table).schema()));
        Predicate city = new PredicateBuilder(offered).equal(1, BinaryString.fromString("Bonn"));

        table.newReadBuilder()
                .withPartitionFilter(PartitionPredicate.fromPredicate(offered, city))
                .newScan()
                .plan();

        assertEquals(json(city(table, "Bonn")), asked().get("filter"));
        assertEquals(List.of("day"), table.partitionKeys(), "nobody else sees other keys");
    }

    private FileStoreTable indexed(String name, Map<String, String> indexes) throws Exception {
        Identifier identifier = Identifier.create("demo", name);
        catalog.createTable(identifier, WrittenTable.schema(indexes), false);
        return (FileStoreTable) catalog.getTable(identifier);
    }

    private int questionsAbout(Table table, int keys) {
        int before = service.requests.size();
        List<Object> names =
                IntStream.range(0, keys).mapToObj(at -> (Object) BinaryString.fromString("c" + at)).collect(toList());
        int column = table.rowType().getFieldIndex("city");
        Predicate filter = new PredicateBuilder(table.rowType()).in(column, names);
        table.newReadBuilder().withFilter(filter).newScan().plan();
        return service.requests.size() - before;
    }

    /** Of n keys a filter passes one that it lacks in 1 - (1 - fpp)^n of the files. */
    @Test
    void isNotAskedWhereFalsePositivesOfBloomFiltersKeepMostFiles() throws Exception {
        String columns = "file-index.bloom-filter.columns";
        String fpp = "file-index.bloom-filter.city.fpp";
        Table rough = indexed("rough", Map.of(columns, "city"));
        Table fine = indexed("fine", Map.of(columns, "city", fpp, "0.01"));
        Table also = indexed("also", Map.of(columns, "city", "file-index.bitmap.columns", "id, city"));
        Outcomes outcomes = new Outcomes();

        assertEquals(0, questionsAbout(rough, 50));
        // The engine writes a list of up to 20 as an OR.
        assertEquals(0, questionsAbout(rough, 7));
        assertEquals(List.of("not_selective", "not_selective"), outcomes.since());
        assertEquals(1, questionsAbout(rough, 6));
        assertEquals(1, questionsAbout(fine, 68));
        assertEquals(0, questionsAbout(fine, 69));
        assertEquals(1, questionsAbout(also, 50));
        assertEquals(1, questionsAbout(indexed("none", Map.of()), 50));
    }

    @Test
    void isAskedWhereAnotherConditionMayDecide() throws Exception {
        Table rough = indexed("rough", Map.of("file-index.bloom-filter.columns", "city"));
        PredicateBuilder columns = new PredicateBuilder(rough.rowType());
        List<Object> names = IntStream.range(0, 50).mapToObj(at -> (Object) BinaryString.fromString("c" + at)).collect(toList());
        Predicate list = columns.in(1, names);

        rough.newReadBuilder().withFilter(PredicateBuilder.and(list, columns.isNotNull(1))).newScan().plan();
        rough.newReadBuilder().withFilter(PredicateBuilder.or(list, columns.equal(0, 7))).newScan().plan();
        assertEquals(0, service.requests.size());
        rough.newReadBuilder().withFilter(PredicateBuilder.and(list, columns.equal(0, 7))).newScan().plan();
        assertEquals(1, service.requests.size());
    }

    @Test
    void keysOfAJoinSpareATableOfFewFilesLittle() throws Exception {
        Identifier name = Identifier.create("demo", "many");
        Schema schema =
                Schema.newBuilder()
                        .column("id", DataTypes.INT())
                        .column("city", DataTypes.STRING())
                        .partitionKeys("id")
                        .build();
        catalog.createTable(name, schema, false);
        assertTrue(RuntimeKeys.sparesLittle((FileStoreTable) catalog.getTable(name)), "no snapshot");
        for (int files : new int[] {31, 1}) {
            assertTrue(RuntimeKeys.sparesLittle((FileStoreTable) catalog.getTable(name)));
            String[] cities = IntStream.range(0, files).mapToObj(at -> "c" + at).toArray(String[]::new);
            WrittenTable.append(catalog.getTable(name), 10 - files / 31 * 10, cities);
        }
        assertFalse(RuntimeKeys.sparesLittle((FileStoreTable) catalog.getTable(name)), "32 files");
    }

    @Test
    void aScanWithoutAFilterTellsThatSparkPadsChar() throws Exception {
        Identifier name = Identifier.create("demo", "phones");
        Schema schema =
                Schema.newBuilder().column("id", DataTypes.INT()).column("phone", DataTypes.CHAR(15)).build();
        catalog.createTable(name, schema, false);
        Table padded = catalog.getTable(name);
        Table plain = cities();
        for (Table each : List.of(padded, plain)) {
            each.newReadBuilder().newScan().plan();
        }

        assertEquals(
                "phones (planned by the engine: no filter: Spark pushes no condition on a CHAR column (phone) unless "
                        + "spark.sql.readSideCharPadding is false and spark.sql.legacy.noCharPaddingInPredicate is true)",
                PaimonSupportsRuntimeFiltering.description(padded));
        assertEquals("cities (planned by the engine: no filter)", PaimonSupportsRuntimeFiltering.description(plain));
    }

    @Test
    void isNotAskedWithoutAFilter() throws Exception {
        cities().newReadBuilder().newScan().plan();
        PredicateBuilder columns = new PredicateBuilder(cities().rowType());
        Predicate notNull = PredicateBuilder.and(List.of(columns.isNotNull(0), columns.isNotNull(1)));
        cities().newReadBuilder().withFilter(notNull).newScan().plan();

        assertEquals(0, service.requests.size());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "deletion-vectors.merge-on-read=true",
                "scan.mode=compacted-full",
                "scan.timestamp-millis=9999999999999",
                "scan.file-creation-time-millis=0",
                "incremental-between=1,2",
                "consumer-id=me",
                "query-auth.enabled=true",
                "batch-scan-mode=compact",
                "dynamic-partition-overwrite=false",
                "fields.city.ignore-retract=true"
            })
    void isNotAskedUnderASessionsOptionThatIsNotKnown(String option) throws Exception {
        String[] pair = option.split("=");
        Table table = cities().copy(Map.of(pair[0], pair[1]));

        try {
            table.newReadBuilder().withFilter(city(table, "Bonn")).newScan().plan();
        } catch (RuntimeException e) {
            // Some need more than this catalog has: the engine's own error.
        }

        assertEquals(0, service.requests.size());
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "deletion-vectors.merge-on-read",
                "query-auth.enabled",
                "batch-scan-mode",
                "scan.ignore-lost-files"
            })
    void isNotAskedOfATableWithAnOptionThatChangesItsRows(String option) throws Exception {
        Identifier name = Identifier.create("demo", "special");
        String value = option.equals("batch-scan-mode") ? "compact" : "true";
        catalog.createTable(
                name, WrittenTable.schema(Map.of(option, value, "row-tracking.enabled", "true")), false);
        Table table = catalog.getTable(name);

        try {
            table.newReadBuilder().withFilter(city(table, "Bonn")).newScan().plan();
        } catch (RuntimeException e) {
            // As above.
        }

        assertEquals(0, service.requests.size());
    }

    @Test
    void isNotAskedOfATableWhoseRowsTheEngineFindsByGlobalIndexes() throws Exception {
        Identifier name = Identifier.create("demo", "evolving");
        Map<String, String> options = Map.of("data-evolution.enabled", "true", "row-tracking.enabled", "true");
        catalog.createTable(name, WrittenTable.schema(options), false);
        Outcomes outcomes = new Outcomes();

        assertNotAsked(catalog.getTable(name));

        assertEquals(List.of("data_evolution"), outcomes.since());
    }

    @ParameterizedTest
    @ValueSource(strings = {"btree", "bitmap", "multivalue", "full-text", "vector"})
    void isNotAskedOfATableWithAnIndexOfTheEnginesOwn(String kind) throws Exception {
        Identifier name = Identifier.create("demo", "own");
        catalog.createTable(name, WrittenTable.schema(Map.of("pk-" + kind + ".index.columns", "city")), false);
        Outcomes outcomes = new Outcomes();

        assertNotAsked(catalog.getTable(name));

        assertEquals(List.of("primary_key_index"), outcomes.since());
    }

    @Test
    void isAskedUnderOptionsThatOnlySaySpeed() throws Exception {
        WrittenTable.idsOf(
                cities()
                        .copy(
                                Map.of(
                                        "read.batch-size", "7",
                                        "source.split.target-size", "1 mb",
                                        "scan.manifest.parallelism", "2",
                                        "scan.infer-parallelism.max", "3",
                                        "rest.port", "8081",
                                        "table.exec.resource.default-parallelism", "2")),
                "Bonn");

        assertEquals(1, service.requests.size());
    }

    @ParameterizedTest
    @ValueSource(strings = {"audit_log", "ro", "files", "snapshots"})
    void isNotAskedBySystemTables(String system) throws Exception {
        cities();
        Table table = catalog.getTable(Identifier.create("demo", "cities$" + system));
        boolean hasCities = table.rowType().getFieldNames().contains("city");

        table.newReadBuilder()
                .withFilter(hasCities ? city(table, "Bonn") : new PredicateBuilder(table.rowType()).isNull(0))
                .newScan()
                .plan();

        assertEquals(0, service.requests.size());
    }

    @Test
    void isNotAskedByBranches() throws Exception {
        ((FileStoreTable) cities()).createBranch("b");

        assertNotAsked(catalog.getTable(new Identifier("demo", "cities", "b")));
        assertNotAsked(((FileStoreTable) cities()).switchToBranch("b"));
        assertNotAsked(cities().copy(Map.of("branch", "b")));
    }

    @Test
    void isNotAskedByStreamsAndCommits() throws Exception {
        Table table = cities();
        table.newReadBuilder().withFilter(city(table, "Bonn")).newStreamScan().plan();
        ((FileStoreTable) table).newSnapshotReader().withFilter(city(table, "Bonn")).read();

        assertEquals(0, service.requests.size());
        assertTrue(table instanceof IndexTable);
    }
}
