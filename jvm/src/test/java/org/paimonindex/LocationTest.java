package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import com.sun.net.httpserver.HttpExchange;
import java.io.IOException;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** A table is asked about by its name where its catalog puts tables, and by its location anywhere else. */
class LocationTest {

    private static final String DEFAULT = "/v1/main/databases/demo/tables/cities/pruned-snapshot";

    @TempDir Path directory;

    private final Outcomes outcomes = new Outcomes();
    private Path warehouse;
    private Path elsewhere;

    /** Two tables of one name; both are at their third snapshot. */
    @BeforeEach
    void write() throws Exception {
        warehouse = directory.resolve("warehouse");
        elsewhere = directory.resolve("elsewhere");
        WrittenTable.write(warehouse);
        WrittenTable.write(elsewhere);
    }

    /** A catalog of the warehouse whose database {@code demo} lies elsewhere, as a database of Hive may. */
    private Catalog catalog(WebServer service, String... named) {
        Map<String, String> options = new HashMap<>(service.options());
        options.put("warehouse", warehouse.toString());
        options.remove("paimon-index.warehouse");
        for (String name : named) {
            options.put("paimon-index.warehouse", name);
        }
        return new IndexCatalog(
                WrittenTable.catalog(elsewhere, Map.of()), new Planner(ServiceOptions.of(Options.fromMap(options))));
    }

    private static byte[] ulm(Path warehouse) throws Exception {
        try (Catalog catalog = WrittenTable.catalog(warehouse, Map.of())) {
            FileStoreTable table = (FileStoreTable) catalog.getTable(WrittenTable.NAME);
            return Archive.of(table, table.snapshotManager().latestSnapshot(), 2).bytes();
        }
    }

    /** A service with these warehouses, which answers about a table with the files of the last commit. */
    private WebServer service(Map<String, String> urls) throws IOException {
        return new WebServer(
                exchange -> {
                    boolean isConfig = exchange.getRequestURI().getPath().equals("/v1/config");
                    byte[] configuration = JsonSerdeUtil.toFlatJson(Map.of("warehouse_urls", urls)).getBytes();
                    WebServer.send(exchange, 200, isConfig ? configuration : located(exchange));
                });
    }

    private byte[] located(HttpExchange exchange) throws IOException {
        String query = exchange.getRequestURI().getQuery();
        try {
            return ulm(query == null ? warehouse : Path.of(query.replace("location=file://", "")).resolve("../.."));
        } catch (Exception e) {
            throw new IOException(e);
        }
    }

    private static String asked(WebServer service) {
        WebServer.Request request = service.requests.get(service.requests.size() - 1);
        return request.query == null ? request.path : request.path + "?" + request.query;
    }

    @Test
    void atTheDefaultPlaceItIsAskedByName() throws Exception {
        try (WebServer service = WebServer.giving(() -> ulm(warehouse));
                Catalog catalog = WrittenTable.catalog(warehouse, service.options())) {
            assertEquals(List.of(21), WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Ulm"));

            assertEquals(DEFAULT, asked(service));
        }
    }

    @Test
    void elsewhereItIsAskedByItsLocation() throws Exception {
        Map<String, String> urls =
                Map.of("main", "file://" + warehouse + "/", "roots", "file://" + directory + "/", "s3", "s3://b/");
        try (WebServer service = service(urls);
                Catalog catalog = catalog(service)) {
            assertEquals(List.of(21), WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Ulm"));

            String location = "file://" + elsewhere + "/demo.db/cities";
            assertEquals(
                    DEFAULT.replace("main", "roots") + "?location="
                            + location.replace(":", "%3A").replace("/", "%2F"),
                    asked(service));
        }
        assertEquals(List.of("planned"), outcomes.since());
    }

    @Test
    void theTableOfTheSameNameIsNeverTakenForIt() throws Exception {
        // A service that does not know locations answers about the table with the name.
        try (WebServer service = WebServer.giving(() -> ulm(warehouse));
                Catalog catalog = catalog(service, "main")) {
            Table table = catalog.getTable(WrittenTable.NAME);
            WrittenTable.append(WrittenTable.catalog(warehouse, Map.of()).getTable(WrittenTable.NAME), 3, "Ulm");
            WrittenTable.append(table, 4, "Ulm");

            assertEquals(List.of(21, 40), WrittenTable.idsOf(table, "Ulm"), "not the row 30 of the other one");
            assertTrue(asked(service).startsWith(DEFAULT + "?location=file%3A%2F"));
        }
        assertEquals(List.of("other_version"), outcomes.since());
    }

    @Test
    void oneThatTheServiceHasNotIsNotAskedAgainAndOthersAre() throws Exception {
        try (WebServer service = new WebServer(exchange -> WebServer.send(exchange, 404, new byte[0]));
                Catalog at = WrittenTable.catalog(warehouse, service.options());
                Catalog away = catalog(service, "main")) {
            for (Catalog catalog : List.of(at, at, away, away)) {
                assertEquals(List.of(0, 20), WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn"));
            }
            assertEquals(2, service.requests.size());
        }
        assertEquals(List.of("not_found", "not_found", "quiet", "quiet"), outcomes.since());
    }

    @Test
    void inNoWarehouseOfTheServiceItIsNotAskedForAWhile() throws Exception {
        try (WebServer service = service(Map.of("main", "file:///other/"));
                Catalog catalog = catalog(service)) {
            Table table = catalog.getTable(WrittenTable.NAME);
            assertEquals(List.of(0, 20), WrittenTable.idsOf(table, "Bonn"));
            assertEquals(List.of(0, 20), WrittenTable.idsOf(table, "Bonn"));

            assertEquals("/v1/config", asked(service));
            assertEquals(1, service.requests.size());
        }
        assertEquals(List.of("not_found", "quiet"), outcomes.since());
    }

    @ParameterizedTest
    @CsvSource({
        // The catalog's warehouse, the table's location, the warehouse that is asked, and the location that is sent.
        "s3a://b/wh,   s3a://b/wh/db.db/t,         main,   ",
        "s3://b/wh/,   s3n://b/x/db.db/t,          bucket, s3://b/x/db.db/t",
        "s3://b/wh,    s3://b/wh/db.db/other,      main,   s3://b/wh/db.db/other",
        "s3://b/wh,    s3://b/who/db.db/t,         bucket, s3://b/who/db.db/t",
        "s3://b,       s3://b/db.db/t,             bucket, ",
        "'',           /data/db/t,                 disk,   file:///data/db/t",
        "name,         file:/data/a b/t,           disk,   file:///data/a b/t",
        "/data,        /data/db.db/t,              disk,   ",
        "hdfs:///w,    hdfs:/w/db.db/t,            hdfs,   ",
        "hdfs:///v,    hdfs:/w/x/t,                hdfs,   hdfs:///w/x/t"
    })
    void theLongestUrlAboveItIsItsWarehouse(String catalogs, String location, String warehouse, String sent)
            throws Exception {
        Map<String, String> urls =
                Map.of("bucket", "s3://b/", "main", "s3://b/wh/", "disk", "file:///data/", "hdfs", "hdfs:///w/");
        Warehouses warehouses =
                new Warehouses(JsonSerdeUtil.toFlatJson(Map.of("warehouse_urls", urls)).getBytes(StandardCharsets.UTF_8));

        String route = warehouses.route(table(location), catalogs);

        String[] parts = URLDecoder.decode(route, StandardCharsets.UTF_8).split("\\?location=");
        assertEquals("/v1/" + warehouse + "/databases/db/tables/t/pruned-snapshot", parts[0]);
        if (sent == null) {
            assertEquals(1, parts.length);
        } else {
            assertEquals(sent, parts[1]);
        }
    }

    @Test
    void belowNoUrlTheMessageSaysWhatToSet() throws Exception {
        Warehouses warehouses = new Warehouses("{\"warehouse_urls\": {\"main\": \"s3://b/wh/\"}}".getBytes());

        NotAskedException unknown =
                assertThrows(NotAskedException.class, () -> warehouses.route(table("s3://b/who/t"), "s3://b/who"));

        assertEquals(Outcome.NOT_FOUND, unknown.outcome);
        for (String part : List.of("s3://b/who/t", "{main=s3://b/wh/}", "PAIMON_INDEX_WAREHOUSES")) {
            assertTrue(unknown.getMessage().contains(part), unknown::getMessage);
        }
    }

    private static PlannedTable table(String location) {
        return new PlannedTable(Identifier.create("db", "t"), location, Map.of(), 0, false);
    }
}
