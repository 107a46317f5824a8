package org.paimonindex;

import java.io.Serializable;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.catalog.Identifier;

/** A table as the catalog loaded it, before a session gave it options of its own. */
final class PlannedTable implements Serializable {

    private static final long serialVersionUID = 1L;

    final String database;
    final String name;
    final String location;
    /** What the table's schema says, which the service knows as well. */
    final HashMap<String, String> storedOptions;
    /** Number of the schema that these options are of. */
    final long schemaId;
    /** Whether the catalog keeps its snapshots, or gives tokens for its files. */
    final boolean isCatalogManaged;

    PlannedTable(
            Identifier identifier,
            String location,
            Map<String, String> storedOptions,
            long schemaId,
            boolean isCatalogManaged) {
        this.database = identifier.getDatabaseName();
        this.name = identifier.getTableName();
        this.location = location;
        this.storedOptions = new HashMap<>(storedOptions);
        this.schemaId = schemaId;
        this.isCatalogManaged = isCatalogManaged;
    }

    @Override
    public String toString() {
        return database + "." + name;
    }
}
