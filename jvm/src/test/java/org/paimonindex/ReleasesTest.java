package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.table.FileStoreTable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The jar beside each release of the engine, in a JVM of its own, which ends when the query has. */
class ReleasesTest {

    private static final Pattern COMPILED = Pattern.compile("[^:]*/paimon-bundle-[^:/]*\\.jar");

    @TempDir Path warehouse;

    private byte[] answer() throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            FileStoreTable table = (FileStoreTable) catalog.getTable(WrittenTable.NAME);
            return Archive.of(table, table.snapshotManager().latestSnapshot(), 2).bytes();
        }
    }

    private String run(WebServer service, String classpath) throws Exception {
        Process java =
                new ProcessBuilder(
                                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                                "-cp", classpath, "org.paimonindex.OneQuery", warehouse.toString(), service.uri())
                        .redirectErrorStream(true)
                        .start();
        String written = new String(java.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
        assertTrue(java.waitFor(1, TimeUnit.MINUTES));
        assertEquals(0, java.exitValue(), written);
        return written;
    }

    @Test
    void thePresentOneIsPlanned() throws Exception {
        try (WebServer service = WebServer.giving(this::answer)) {
            assertEquals("[20] [no_filter, planned]", lastLine(run(service, System.getProperty("java.class.path"))));
        }
    }

    @ParameterizedTest
    @ValueSource(strings = {"bundle-1.0.1", "bundle-1.1.1", "bundle-1.2.0", "bundle-1.3.1"})
    void thoseBeforeArePlanned(String release) throws Exception {
        try (WebServer service = WebServer.giving(this::answer)) {
            assertEquals("[20] [no_filter, planned]", lastLine(run(service, classpath(release))));
        }
    }

    @Test
    void oneThatLacksTooMuchPlansAlone() throws Exception {
        try (WebServer service = WebServer.giving(this::answer)) {
            String written = run(service, classpath("spark-3.5-0.9.0"));

            assertEquals("[0, 20] [release, release]", lastLine(written));
            assertEquals(1, written.lines().filter(line -> line.contains("is planned by the engine")).count());
            assertEquals(0, service.requests.size());
        }
    }

    private static String classpath(String release) {
        File bundle = new File("target/bundles/paimon-" + release + ".jar");
        return COMPILED.matcher(System.getProperty("java.class.path")).replaceAll(bundle.getAbsolutePath());
    }

    private static String lastLine(String written) {
        String[] lines = written.strip().split("\n");
        return lines[lines.length - 1];
    }
}
