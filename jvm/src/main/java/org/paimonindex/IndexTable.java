package org.paimonindex;

import java.util.Map;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.DelegatedFileStoreTable;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.source.DataTableScan;
import org.apache.paimon.table.source.ReadBuilder;

/**
 * A table whose queries are planned through the service; all else is the wrapped table's.
 *
 * <p>Queries take a {@code ReadBuilder}. Scans that are made without one belong to system tables of this table,
 * which read other rows, or to commits.
 */
final class IndexTable extends DelegatedFileStoreTable {

    private static final long serialVersionUID = 1L;

    private final PlannedTable planned;
    /** Stays in the driver; a table that was sent elsewhere plans as the engine does. */
    private final transient Planner planner;
    private final boolean isQueried;

    IndexTable(FileStoreTable wrapped, PlannedTable planned, Planner planner) {
        this(wrapped, planned, planner, false);
    }

    private IndexTable(FileStoreTable wrapped, PlannedTable planned, Planner planner, boolean isQueried) {
        super(wrapped);
        this.planned = planned;
        this.planner = planner;
        this.isQueried = isQueried;
    }

    @Override
    public ReadBuilder newReadBuilder() {
        return isQueried ? super.newReadBuilder() : new IndexTable(wrapped, planned, planner, true).newReadBuilder();
    }

    @Override
    public DataTableScan newScan() {
        return isQueried && planner != null
                ? new RecordedScan(wrapped, planned, planner).proxy()
                : wrapped.newScan();
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
