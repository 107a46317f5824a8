package org.paimonindex;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;

/** Writes the table of {@link WrittenTable}, and asks for its rows of Bonn through the catalog. */
public final class OneQuery {

    private OneQuery() {}

    public static void main(String[] arguments) throws Exception {
        Path warehouse = Path.of(arguments[0]);
        WrittenTable.write(warehouse);
        Outcomes outcomes = new Outcomes();
        List<Integer> ids;
        Map<String, String> service =
                Map.of("paimon-index.uri", arguments[1], "paimon-index.warehouse", "main", "cache-enabled", "true");
        try (Catalog catalog = WrittenTable.catalog(warehouse, service)) {
            ids = WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn");
        }
        System.out.println(ids + " " + outcomes.since());
    }
}
