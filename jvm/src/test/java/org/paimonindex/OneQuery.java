package org.paimonindex;

import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.types.DataTypes;

/** Writes the table of {@link WrittenTable}, and asks for its rows of Bonn through the catalog. */
public final class OneQuery {

    private OneQuery() {}

    public static void main(String[] arguments) throws Exception {
        Path warehouse = Path.of(arguments[0]);
        WrittenTable.write(warehouse);
        Outcomes outcomes = new Outcomes();
        List<Integer> ids;
        Map<String, String> service =
                Map.of(
                        "paimon-index.uri", arguments[1],
                        "paimon-index.timeout", "60 s",
                        "paimon-index.warehouse", "main",
                        "cache-enabled", "true");
        try (Catalog catalog = WrittenTable.catalog(warehouse, service)) {
            ids = WrittenTable.idsOf(catalog.getTable(WrittenTable.NAME), "Bonn");
            // Partition filters came to be a class of their own in one of the releases.
            Identifier byCity = Identifier.create("demo", "by_city");
            catalog.createTable(
                    byCity,
                    Schema.newBuilder()
                            .column("id", DataTypes.INT())
                            .column("city", DataTypes.STRING())
                            .partitionKeys("city")
                            .build(),
                    false);
            Table table = catalog.getTable(byCity);
            WrittenTable.append(table, 0, "Bonn", "Wien");
            int splits =
                    table.newReadBuilder().withPartitionFilter(Map.of("city", "Bonn")).newScan().plan().splits().size();
            if (splits != 1) {
                throw new IllegalStateException(splits + " splits of one partition");
            }
        }
        System.out.println(ids + " " + outcomes.since());
    }
}
