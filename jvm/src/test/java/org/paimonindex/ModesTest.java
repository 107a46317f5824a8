package org.paimonindex;

import static java.util.stream.Collectors.toList;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.ByteArrayOutputStream;
import java.io.ObjectOutputStream;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import javax.management.ObjectName;
import javax.management.openmbean.TabularData;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Plan, observe, off: what each does with a plan, and what an operator sees of it. */
class ModesTest {

    /** Java keeps so many of one address when nobody uses them. */
    private static final int CONNECTIONS = 5;

    private static final List<Integer> IN_BONN = List.of(0, 20);

    @TempDir Path warehouse;

    private final Outcomes outcomes = new Outcomes();
    private Archive archive;

    @BeforeEach
    void write() throws Exception {
        WrittenTable.write(warehouse);
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            FileStoreTable table = (FileStoreTable) catalog.getTable(WrittenTable.NAME);
            // A wrong answer, so that whoever takes it for a plan has too few rows.
            archive = Archive.of(table, table.snapshotManager().latestSnapshot(), 2);
        }
    }

    private Map<String, String> options(WebServer service, String mode) {
        Map<String, String> options = new HashMap<>(service.options());
        options.put("paimon-index.mode", mode);
        return options;
    }

    private static long total(String attribute, String member) throws Exception {
        Object value =
                ManagementFactory.getPlatformMBeanServer()
                        .getAttribute(new ObjectName("org.paimonindex:type=Scans"), attribute);
        return member == null
                ? (Long) value
                : (Long) ((TabularData) value).get(new Object[] {member}).get("value");
    }

    @Test
    void observeCountsWhatWouldBeSkippedAndReadsAll() throws Exception {
        long asked = total("Asked", null);
        long files = total("Observed", "files");
        long bytes = total("Observed", "bytes");
        long skippedFiles = total("ObservedSkipped", "files");
        long skippedRows = total("ObservedSkipped", "rows");
        long skippedBytes = total("ObservedSkipped", "bytes");
        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, options(service, "observe"))) {
            assertEquals(IN_BONN, WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn"));
        }
        assertEquals(List.of("observed"), outcomes.since());
        assertEquals(1, total("Asked", null) - asked);
        assertTrue(total("Observed", "files") - files >= 2, "the engine reads two or three files");
        assertEquals(total("Observed", "files") - files - 1, total("ObservedSkipped", "files") - skippedFiles);
        assertEquals(
                2 * (total("ObservedSkipped", "files") - skippedFiles),
                total("ObservedSkipped", "rows") - skippedRows);
        assertTrue(total("ObservedSkipped", "bytes") - skippedBytes < total("Observed", "bytes") - bytes);
    }

    @Test
    void planCountsWhatIsRead() throws Exception {
        long files = total("Planned", "files");
        long rows = total("Planned", "rows");
        long skippedFiles = total("PlannedSkipped", "files");
        long skippedRows = total("PlannedSkipped", "rows");
        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, options(service, "plan"))) {
            WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn");
        }
        assertEquals(List.of("planned"), outcomes.since());
        assertEquals(1, total("Planned", "files") - files);
        assertEquals(2, total("Planned", "rows") - rows);
        // Of two files that are left out, the engine leaves one out by itself.
        assertEquals(1, total("PlannedSkipped", "files") - skippedFiles);
        assertEquals(2, total("PlannedSkipped", "rows") - skippedRows);
        assertEquals(total("PlannedSkipped", "files"), Scans.totals().get("files left out"));
        assertEquals(total("Outcomes", "planned"), Scans.counts().get("planned"));
    }

    @Test
    void aLineAMinuteSaysWhatOfATableIsLeftOut() throws Exception {
        PrintStream before = System.err;
        ByteArrayOutputStream lines = new ByteArrayOutputStream();
        Identifier name = Identifier.create("demo", "told");
        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, options(service, "plan"))) {
            catalog.renameTable(WrittenTable.NAME, name, false);
            System.setErr(new PrintStream(lines, true, StandardCharsets.UTF_8));
            for (int i = 0; i < 2; i++) {
                WrittenTable.idsOf(catalog.getTable(name), "Bonn");
            }
        } finally {
            System.setErr(before);
        }
        List<String> written =
                lines.toString(StandardCharsets.UTF_8).lines().filter(line -> line.contains("demo.told")).collect(toList());
        assertEquals(1, written.size(), written::toString);
        assertTrue(written.get(0).contains("demo.told is planned by paimon-index: {bytes="), written.get(0));
        assertTrue(written.get(0).contains("files=1, rows=2} left out by indexes; "), written.get(0));
    }

    @Test
    void offIsTheWrappedCatalog() throws Exception {
        try (WebServer service = WebServer.giving(archive::bytes);
                Catalog catalog = WrittenTable.catalog(warehouse, options(service, "off"))) {
            Table table = catalog.getTable(WrittenTable.NAME);

            assertEquals(IN_BONN, WrittenTable.idsOf(table, "Bonn"));
            assertFalse(table instanceof IndexTable);
            assertEquals(0, service.requests.size());
        }
    }

    @Test
    void aTableThatTheEngineCachesIsReadByManyThreads() throws Exception {
        Map<String, String> options = new HashMap<>();
        ExecutorService threads = Executors.newFixedThreadPool(CONNECTIONS);
        try (WebServer service = WebServer.giving(archive::bytes)) {
            options.putAll(service.options());
            options.put("cache-enabled", "true");
            try (Catalog catalog = WrittenTable.catalog(warehouse, options)) {
                List<Future<List<Integer>>> queries = new ArrayList<>();
                for (int i = 0; i < 80; i++) {
                    queries.add(threads.submit(() -> WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn")));
                }
                for (Future<List<Integer>> query : queries) {
                    assertEquals(List.of(20), query.get());
                }
            }
            assertEquals(80, service.requests.size());
            long connections = service.requests.stream().map(request -> request.port).distinct().count();
            assertTrue(connections <= CONNECTIONS, "connections are kept");
        } finally {
            threads.shutdown();
        }
        assertEquals(80, outcomes.since().size());
        assertTrue(outcomes.since().stream().allMatch("planned"::equals));
    }

    @Test
    void tasksAreGivenNoToken() throws Exception {
        Map<String, String> options = new HashMap<>(Map.of("paimon-index.uri", "http://localhost:1"));
        options.put("paimon-index.token", "a secret");
        try (Catalog catalog = WrittenTable.catalog(warehouse, options)) {
            ByteArrayOutputStream sent = new ByteArrayOutputStream();
            try (ObjectOutputStream stream = new ObjectOutputStream(sent)) {
                stream.writeObject(catalog.getTable(WrittenTable.NAME).newReadBuilder());
                stream.writeObject(catalog.catalogLoader());
            }
            assertFalse(sent.toString(StandardCharsets.ISO_8859_1).contains("a secret"));
        }
    }

    @ParameterizedTest
    @CsvSource({
        "uri, http://a b, 'URLs such as http://paimon-index:8080, separated by commas'",
        "uri, 'http://a:1,ftp://b', 'URLs such as http://paimon-index:8080, separated by commas'",
        "timeout, soon, a time such as 2 s or 500 ms",
        "timeout, 2 fortnights, a time such as 2 s or 500 ms",
        "timeout, 0 s, a time such as 2 s or 500 ms",
        "timeout, 99999999999999999999 s, a time such as 2 s or 500 ms",
        "mode, plans, 'plan, observe or off'",
        "metastore, glue, 'the catalog to wrap: filesystem, hive, jdbc or rest, whose classes are beside this jar'",
        "metastore, paimon-index, 'the catalog to wrap: filesystem, hive, jdbc or rest, whose classes are beside this jar'",
        "warehouse, '', the service's name of the warehouse"
    })
    void anOptionThatCannotBeUsedIsNamedWithItsValueAndWhatIsExpected(String name, String value, String expected) {
        Map<String, String> options = new HashMap<>(Map.of("paimon-index.uri", "http://localhost:1"));
        options.put("paimon-index." + name, value);

        IllegalArgumentException error =
                assertThrows(IllegalArgumentException.class, () -> WrittenTable.catalog(warehouse, options));

        String found = name.equals("uri") ? value.substring(value.lastIndexOf(',') + 1) : value;
        assertEquals("paimon-index." + name + " is '" + found + "': expected " + expected, error.getMessage());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "paimon-index:8080", "ftp://paimon-index", "/v1"})
    void aUrlThatIsNoneIsSaidAtOnce(String uri) {
        assertThrows(
                IllegalArgumentException.class,
                () -> WrittenTable.catalog(warehouse, Map.of("paimon-index.uri", uri)));
    }
}
