package org.paimonindex;

import java.util.Map;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.DelegatedFileStoreTable;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.DataTableScan;

/** A table whose batch scans are planned through the service; reads and writes are the wrapped table's. */
final class IndexTable extends DelegatedFileStoreTable {

    private static final long serialVersionUID = 1L;

    private final PlannedTable planned;
    /** Stays in the driver; a table that was sent elsewhere plans as the engine does. */
    private final transient Planner planner;

    IndexTable(FileStoreTable wrapped, PlannedTable planned, Planner planner) {
        super(wrapped);
        this.planned = planned;
        this.planner = planner;
    }

    @Override
    public DataTableScan newScan() {
        return planner == null ? wrapped.newScan() : new RecordedScan(wrapped, planned, planner).proxy();
    }

    @Override
    public FileStoreTable copy(Map<String, String> dynamicOptions) {
        return wrap(wrapped.copy(dynamicOptions));
    }

    @Override
    public FileStoreTable copy(TableSchema newTableSchema) {
        return wrap(wrapped.copy(newTableSchema));
    }

    @Override
    public FileStoreTable copyWithoutTimeTravel(Map<String, String> dynamicOptions) {
        return wrap(wrapped.copyWithoutTimeTravel(dynamicOptions));
    }

    @Override
    public FileStoreTable copyWithLatestSchema() {
        return wrap(wrapped.copyWithLatestSchema());
    }

    /** A branch is another table to the service, which is not asked about it. */
    @Override
    public FileStoreTable switchToBranch(String branchName) {
        return wrapped.switchToBranch(branchName);
    }

    private FileStoreTable wrap(FileStoreTable table) {
        return new IndexTable(table, planned, planner);
    }
}
