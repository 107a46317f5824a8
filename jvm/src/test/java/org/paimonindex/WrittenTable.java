package org.paimonindex;

import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.GenericRow;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.schema.Schema;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.sink.BatchTableCommit;
import org.apache.paimon.table.sink.BatchTableWrite;
import org.apache.paimon.table.sink.BatchWriteBuilder;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.DataTypes;

/** A table {@code demo.cities (id INT, city STRING)} of three files with two rows each. */
final class WrittenTable {

    static final Identifier NAME = Identifier.create("demo", "cities");
    private static final String[][] FILES = {{"Bonn", "Wien"}, {"Graz", "Linz"}, {"Bonn", "Ulm"}};

    private WrittenTable() {}

    /** Writes {@code demo.indexed} with the release that runs. */
    public static void main(String[] arguments) throws Exception {
        try (Catalog catalog = catalog(Path.of(arguments[0]), Map.of())) {
            writeIndexed(catalog, Identifier.create("demo", "indexed"), Map.of(), Map.of());
        }
    }

    /** Writes a table of five files whose statistics rule nothing out. */
    static void writeIndexed(
            Catalog catalog, Identifier name, Map<String, String> ofDatabase, Map<String, String> ofTable)
            throws Exception {
        Map<String, String> options =
                new HashMap<>(
                        Map.of(
                                "file-index.bloom-filter.columns", "city",
                                "file-index.bloom-filter.city.items", "10",
                                "file-index.bitmap.columns", "id"));
        options.putAll(ofTable);
        catalog.createDatabase(name.getDatabaseName(), true, ofDatabase);
        catalog.createTable(name, schema(options), false);
        for (int file = 0; file < 5; file++) {
            append(catalog.getTable(name), file, "Aachen", "middle-" + file, "Zwickau");
        }
    }

    static void write(Path warehouse) throws Exception {
        write(warehouse, Map.of());
    }

    static void write(Path warehouse, Map<String, String> service) throws Exception {
        try (Catalog catalog = catalog(warehouse, service)) {
            catalog.createDatabase("demo", true);
            catalog.createTable(NAME, schema(Map.of()), false);
            for (int file = 0; file < FILES.length; file++) {
                append(catalog.getTable(NAME), file, FILES[file]);
            }
        }
    }

    static Schema schema(Map<String, String> options) {
        return Schema.newBuilder()
                .column("id", DataTypes.INT())
                .column("city", DataTypes.STRING())
                .option("bucket", "-1")
                .option("write-only", "true")
                .options(options)
                .build();
    }

    static void append(Table table, int file, String... cities) throws Exception {
        BatchWriteBuilder builder = table.newBatchWriteBuilder();
        try (BatchTableWrite write = builder.newWrite();
                BatchTableCommit commit = builder.newCommit()) {
            for (int row = 0; row < cities.length; row++) {
                write.write(GenericRow.of(10 * file + row, BinaryString.fromString(cities[row])));
            }
            commit.commit(write.prepareCommit());
        }
    }

    /** A catalog of the warehouse; with the options of a service, one that plans through it. */
    static Catalog catalog(Path warehouse, Map<String, String> given) {
        Map<String, String> options = new HashMap<>(Map.of("cache-enabled", "false"));
        options.put("warehouse", warehouse.toString());
        options.putAll(given);
        // A catalog that has none of its own is given none.
        options.remove("warehouse", "");
        if (options.containsKey("paimon-index.uri")) {
            options.put("metastore", "paimon-index");
        }
        return CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(options)));
    }

    /** The ids of the rows of a city. */
    static List<Integer> idsOf(Table table, String city) throws Exception {
        Predicate filter =
                new PredicateBuilder(table.rowType()).equal(1, BinaryString.fromString(city));
        ReadBuilder read = table.newReadBuilder().withFilter(filter);
        TableScan.Plan plan = read.newScan().plan();
        List<Integer> ids = new ArrayList<>();
        try (RecordReader<InternalRow> rows = read.newRead().createReader(plan)) {
            rows.forEachRemaining(
                    row -> {
                        if (row.getString(1).toString().equals(city)) {
                            ids.add(row.getInt(0));
                        }
                    });
        }
        Collections.sort(ids);
        return ids;
    }
}
