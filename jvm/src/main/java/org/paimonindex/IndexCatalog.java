package org.paimonindex;

import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogLoader;
import org.apache.paimon.catalog.DelegateCatalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.table.DelegatedFileStoreTable;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;

/** A catalog whose tables are planned through the service; everything else is the wrapped catalog's. */
final class IndexCatalog extends DelegateCatalog {

    private final Planner planner;

    IndexCatalog(Catalog wrapped, Planner planner) {
        super(wrapped);
        this.planner = planner;
    }

    /** Tasks load the wrapped catalog: they read what was planned, and ask nothing. */
    @Override
    public CatalogLoader catalogLoader() {
        return wrapped.catalogLoader();
    }

    @Override
    public Table getTable(Identifier identifier) throws TableNotExistException {
        Table table = wrapped.getTable(identifier);
        return Unneeded.orElse(identifier, () -> planned(identifier, table), () -> table);
    }

    private Table planned(Identifier identifier, Table table) {
        // System tables read metadata; a table that delegates already (a fallback branch) reads two at once.
        boolean plain =
                table instanceof FileStoreTable
                        && !(table instanceof DelegatedFileStoreTable)
                        && !identifier.isSystemTable()
                        && identifier.getBranchName() == null;
        if (!plain) {
            return table;
        }
        FileStoreTable stored = (FileStoreTable) table;
        boolean isCatalogManaged =
                Releases.isVersionedByCatalog(stored)
                        || Boolean.parseBoolean(wrapped.options().get("data-token.enabled"));
        PlannedTable planned =
                new PlannedTable(
                        identifier,
                        stored.location().toString(),
                        stored.options(),
                        stored.schema().id(),
                        isCatalogManaged);
        return IndexTable.of(stored, planned, planner);
    }
}
