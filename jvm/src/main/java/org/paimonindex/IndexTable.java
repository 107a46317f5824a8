package org.paimonindex;

import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.List;
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
    private final Planner planner;
    private final ScanNote note;
    private final boolean isQueried;
    /** What Spark was offered to join with; null before. */
    private transient volatile List<String> keys;

    private IndexTable(
            FileStoreTable wrapped, PlannedTable planned, Planner planner, ScanNote note, boolean isQueried) {
        super(wrapped);
        this.planned = planned;
        this.planner = planner;
        this.note = note;
        this.isQueried = isQueried;
    }

    /**
     * Wraps a table.
     *
     * @throws AbstractMethodError the engine's tables have methods that this one lacks; they would fail a query later
     */
    static FileStoreTable of(FileStoreTable wrapped, PlannedTable planned, Planner planner) {
        for (Method method : IndexTable.class.getMethods()) {
            if (Modifier.isAbstract(method.getModifiers())) {
                throw new AbstractMethodError(method.toString());
            }
        }
        return new IndexTable(wrapped, planned, planner, new ScanNote(), false);
    }

    @Override
    public String name() {
        return Unneeded.orElse(planned, () -> note.beside(wrapped.name()), wrapped::name);
    }

    @Override
    public List<String> partitionKeys() {
        return Unneeded.orElse(planned, this::offeredKeys, wrapped::partitionKeys);
    }

    private List<String> offeredKeys() {
        if (!planner.takesRuntimeKeys() || !RuntimeKeys.areOffered()) {
            return wrapped.partitionKeys();
        }
        if (keys == null) {
            List<String> all = RuntimeKeys.of(wrapped.schema());
            boolean isMore = all.size() > wrapped.partitionKeys().size();
            // One decision for a scan: Spark takes the keys that it was offered.
            keys = isMore && RuntimeKeys.sparesLittle(wrapped) ? wrapped.partitionKeys() : all;
        }
        return keys;
    }

    @Override
    public ReadBuilder newReadBuilder() {
        return isQueried
                ? super.newReadBuilder()
                : new IndexTable(wrapped, planned, planner, note, true).newReadBuilder();
    }

    @Override
    public DataTableScan newScan() {
        return isQueried
                ? Unneeded.orElse(
                        planned, () -> new RecordedScan(wrapped, planned, planner, note).proxy(), wrapped::newScan)
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
        return new IndexTable(table, planned, planner, new ScanNote(), false);
    }
}
