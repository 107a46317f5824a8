package org.apache.paimon.spark.read;

import java.util.List;
import org.apache.paimon.table.Table;

/** What the connector's scan of this name calls of a table; tests have no connector. */
public final class PaimonSupportsRuntimeFiltering {

    private PaimonSupportsRuntimeFiltering() {}

    /** The columns whose keys Spark may collect. */
    public static List<String> filterAttributes(Table table) {
        return table.partitionKeys();
    }

    /** The name of a table in EXPLAIN. */
    public static String description(Table table) {
        return table.name();
    }
}
