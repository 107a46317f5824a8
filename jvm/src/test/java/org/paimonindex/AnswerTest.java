package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.paimon.Snapshot;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.ExpireConfig;
import org.apache.paimon.spark.read.PaimonSupportsRuntimeFiltering;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** An answer is planned if it is about the version of the table that the query reads, and else the engine plans. */
class AnswerTest {

    private static final List<Integer> IN_BONN = List.of(0, 20);

    @TempDir Path directory;

    private final Outcomes outcomes = new Outcomes();
    private Path warehouse;
    private FileStoreTable table;

    private interface Change {
        void to(Archive archive) throws Exception;
    }

    @BeforeEach
    void write() throws Exception {
        warehouse = directory.resolve("warehouse");
        WrittenTable.write(warehouse);
        table = tableOf(warehouse, WrittenTable.NAME);
    }

    private static FileStoreTable tableOf(Path warehouse, Identifier name) throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            return (FileStoreTable) catalog.getTable(name);
        }
    }

    /** The answer to "the rows of Bonn". */
    private static Archive bonn(FileStoreTable table) throws IOException {
        return Archive.of(table, table.snapshotManager().latestSnapshot(), 0, 2);
    }

    private List<Integer> ask(WebServer service) throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            return WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn");
        }
    }

    private void assertOutcome(String outcome, Change change) throws Exception {
        Archive archive = bonn(table);
        change.to(archive);
        byte[] bytes = archive.bytes();
        try (WebServer service = WebServer.giving(() -> bytes)) {
            assertEquals(IN_BONN, ask(service));
        }
        assertEquals(List.of(outcome), outcomes.since());
    }

    @Test
    void theFilesThatItKeepsAreRead() throws Exception {
        Archive archive = Archive.of(table, table.snapshotManager().latestSnapshot(), 2);

        try (WebServer service = WebServer.giving(archive::bytes)) {
            assertEquals(List.of(20), ask(service), "a file that holds no row is told from one that was left out");
        }
        assertEquals(List.of("planned"), outcomes.since());
    }

    @Test
    void anotherSchemaIsTheEngines() throws Exception {
        assertOutcome("other_version", archive -> archive.answer.put("schema_id", 7));
    }

    @Test
    void anotherTableIsTheEngines() throws Exception {
        assertOutcome("other_version", archive -> archive.answer.put("delta_manifest_list", "manifest-list-x-1"));
    }

    @Test
    void manyFilesAreTheEngines() throws Exception {
        assertOutcome("not_selective", archive -> archive.answer.put("document", null));
    }

    @Test
    void whatTheServiceSaysOfAnUndecidedTestIsToldByTheScan() throws Exception {
        Archive archive = bonn(table);
        archive.answer.put("document", null);
        archive.answer.put("warnings", List.of("no file is pruned by EQUAL of UPPER(city)"));
        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            Table session = catalog.getTable(WrittenTable.NAME);

            WrittenTable.idsOf(session, "Bonn");

            assertEquals(
                    "cities (planned by the engine: not selective: no file is pruned by EQUAL of UPPER(city))",
                    PaimonSupportsRuntimeFiltering.description(session));
        }
    }

    @Test
    void aTableWithoutSnapshotsHasNoRows() throws Exception {
        Identifier empty = Identifier.create("demo", "empty");
        Archive archive = new Archive();
        archive.answer.put("schema_id", 0);
        archive.answer.put("name", "none");
        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            catalog.createTable(empty, WrittenTable.schema(Map.of()), false);

            assertEquals(List.of(), WrittenTable.idsOf(catalog.getTable(empty), "Bonn"));
        }
        assertEquals(List.of("not_selective"), outcomes.since());
    }

    @Test
    void aCopyThatFallsBehindIsSeenAtOnce() throws Exception {
        Path copy = directory.resolve("copy");
        try (Stream<Path> all = Files.walk(warehouse)) {
            for (Path each : (Iterable<Path>) all::iterator) {
                Files.copy(each, copy.resolve(warehouse.relativize(each)));
            }
        }
        FileStoreTable copied = tableOf(copy, WrittenTable.NAME);
        try (WebServer service = WebServer.giving(() -> bonn(copied).bytes());
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            Table session = catalog.getTable(WrittenTable.NAME);
            assertEquals(IN_BONN, WrittenTable.idsOf(session, "Bonn"));

            WrittenTable.append(session, 3, "Bonn");

            assertEquals(List.of(0, 20, 30), WrittenTable.idsOf(session, "Bonn"));
        }
        assertEquals(List.of("other_version", "planned"), outcomes.since());
    }

    @Test
    void aTableThatWasMadeAnewIsNotReadByTheAnswerAboutTheOldOne() throws Exception {
        byte[] old = bonn(table).bytes();
        try (WebServer service = WebServer.giving(() -> old);
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            assertEquals(IN_BONN, WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn"));

            catalog.dropTable(WrittenTable.NAME, false);
            catalog.createTable(WrittenTable.NAME, WrittenTable.schema(Map.of()), false);
            for (int file = 0; file < 3; file++) {
                WrittenTable.append(catalog.getTable(WrittenTable.NAME), file, "Ulm", "Bonn");
            }

            assertEquals(List.of(1, 11, 21), WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn"));
        }
        assertEquals(List.of("other_version", "planned"), outcomes.since());
    }

    @Test
    void aCommitWhileTheServiceLooksMayBeInTheAnswer() throws Exception {
        // The engine's snapshot is read while the service looks for its answer, so the answer may be the newer one.
        Snapshot seen = table.snapshotManager().latestSnapshot();
        WrittenTable.append(table, 3, "Bonn");
        Archive archive = Archive.of(table, table.snapshotManager().latestSnapshot(), 0, 2, 3);
        Files.writeString(warehouse.resolve("demo.db/cities/snapshot/LATEST"), Long.toString(seen.id()));
        Path newest = warehouse.resolve("demo.db/cities/snapshot/snapshot-4");
        byte[] committed = Files.readAllBytes(newest);
        Files.delete(newest);

        try (WebServer service =
                        WebServer.giving(
                                () -> {
                                    Files.write(newest, committed);
                                    return archive.bytes();
                                })) {
            assertEquals(List.of(0, 20, 30), ask(service));
        }
        assertEquals(List.of("planned"), outcomes.since());
    }

    @Test
    void aTagIsReadAfterItsSnapshotHasExpired() throws Exception {
        table.createTag("kept", 2);
        Snapshot tagged = table.tagManager().getOrThrow("kept").trimToSnapshot();
        Archive archive = Archive.of(table, tagged, 0);
        table.newExpireSnapshots()
                .config(ExpireConfig.builder().snapshotRetainMin(1).snapshotRetainMax(1).build())
                .expire();

        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            Table session = catalog.getTable(WrittenTable.NAME).copy(Map.of("scan.tag-name", "kept"));

            assertEquals(List.of(0), WrittenTable.idsOf(session, "Bonn"));
        }
        assertEquals(List.of("planned"), outcomes.since());
    }

    @Test
    void anOldVersionUnderOptionsThatWereAlteredSinceIsTheEngines() throws Exception {
        Archive archive = Archive.of(table, table.snapshotManager().snapshot(2), 0);
        archive.answer.put("options_schema_id", 7);

        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            Table session = catalog.getTable(WrittenTable.NAME).copy(Map.of("scan.snapshot-id", "2"));

            assertEquals(List.of(0), WrittenTable.idsOf(session, "Bonn"));
        }
        assertEquals(List.of("other_version"), outcomes.since());
    }

    @ParameterizedTest
    @ValueSource(strings = {"../manifest-x", "/manifest/manifest-x", "manifest/../snapshot/LATEST", "schema/schema-0"})
    void aFileThatIsNoManifestIsRefused(String name) throws Exception {
        assertOutcome("refused", archive -> archive.files.put(name, new byte[1]));
    }

    @Test
    void aFileThatUnpacksToTooMuchIsRefused() throws Exception {
        assertOutcome(
                "refused",
                archive -> archive.files.put("manifest/manifest-zeros", new byte[Exchange.MOST_BYTES + 1]));
    }

    @Test
    void anAnswerThatLacksAManifestIsRefused() throws Exception {
        assertOutcome(
                "refused",
                archive -> {
                    String list = (String) ((Map<?, ?>) archive.answer.get("document")).get("baseManifestList");
                    assertNotNull(archive.files.remove("manifest/" + list));
                });
    }
}
