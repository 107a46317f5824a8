package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.table.FileStoreTable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A catalog that keeps its names in a database is wrapped like one that keeps them in the warehouse. */
class JdbcTest {

    @TempDir Path directory;

    @Test
    void itsTablesArePlannedByTheService() throws Exception {
        Path warehouse = directory.resolve("warehouse");
        Map<String, String> jdbc = new HashMap<>();
        jdbc.put("uri", "jdbc:sqlite:" + directory.resolve("names.db"));
        jdbc.put("jdbc.user", "nobody");
        jdbc.put("jdbc.password", "none");
        Outcomes outcomes = new Outcomes();
        try (WebServer service = WebServer.giving(() -> answer(warehouse))) {
            Map<String, String> options = new HashMap<>(jdbc);
            options.putAll(service.options());
            options.put("paimon-index.metastore", "jdbc");
            WrittenTable.write(warehouse, options);

            try (Catalog catalog = WrittenTable.catalog(warehouse, options)) {
                assertEquals(List.of("demo"), catalog.listDatabases());
                assertEquals(List.of(20), WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn"));
            }
        }
        assertEquals(List.of("planned"), outcomes.since());
    }

    private static byte[] answer(Path warehouse) throws Exception {
        // The warehouse is the same without the database.
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            FileStoreTable table = (FileStoreTable) catalog.getTable(WrittenTable.NAME);
            return Archive.of(table, table.snapshotManager().latestSnapshot(), 2).bytes();
        }
    }
}
