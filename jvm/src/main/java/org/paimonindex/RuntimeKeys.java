package org.paimonindex;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.Snapshot;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.predicate.PredicateVisitor;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.types.RowType;

/**
 * The keys of a join's small side, which Spark collects before it reads the large one.
 *
 * <p>The connector's scan offers Spark the partition keys of its table for that, and gives the keys that Spark
 * found to {@code withPartitionFilter}. To this caller alone the table names the columns that have an index as
 * well; what comes back about these is taken out of the partition filter and goes to the service. It narrows the
 * files, and no more: Spark joins in any case.
 */
final class RuntimeKeys {

    /** Who offers the columns to Spark, and takes the keys. */
    private static final String CALLER = "org.apache.paimon.spark.read.PaimonSupportsRuntimeFiltering";

    private static final int FEW_FILES = 32;

    /** Null in releases that do not let the parts of a partition filter be seen. */
    private static final Method PARTS = parts();

    /** A partition filter divided into what it says of partitions (null: nothing) and of other columns. */
    static final class Divided {

        final PartitionPredicate partitions;
        final List<Predicate> others;

        private Divided(PartitionPredicate partitions, List<Predicate> others) {
            this.partitions = partitions;
            this.others = others;
        }
    }

    private RuntimeKeys() {}

    private static Method parts() {
        try {
            return Class.forName(PartitionPredicate.class.getName() + "$AndPartitionPredicate").getMethod("predicates");
        } catch (ReflectiveOperationException e) {
            return null;
        }
    }

    /** Whether a table is asked for its partition keys by the scan that offers them to Spark. */
    static boolean areOffered() {
        return PARTS != null
                && Caller.is(
                        frame -> frame.getClassName().equals(CALLER) && frame.getMethodName().startsWith("filter"));
    }

    /**
     * Whether keys spare a table little: Spark would read a scan that occurs twice in a query once, which keys can part,
     * and the catalog does not see whole queries.
     */
    static boolean sparesLittle(FileStoreTable table) {
        Snapshot snapshot = Releases.snapshot(table);
        long files = 0;
        if (snapshot != null) {
            for (ManifestFileMeta each : table.store().manifestListFactory().create().readDataManifests(snapshot)) {
                files += each.numAddedFiles() - each.numDeletedFiles();
            }
        }
        return files < FEW_FILES;
    }

    /** The partition keys, and behind them the columns that an index may find keys in. */
    static List<String> of(TableSchema schema) {
        Set<String> keys = new LinkedHashSet<>(schema.partitionKeys());
        keys.addAll(schema.primaryKeys());
        keys.addAll(schema.bucketKeys());
        for (Map.Entry<String, String> option : schema.options().entrySet()) {
            if (option.getKey().startsWith("file-index.") && option.getKey().endsWith(".columns")) {
                for (String column : option.getValue().split(",")) {
                    keys.add(column.trim());
                }
            }
        }
        keys.retainAll(schema.fieldNames());
        return new ArrayList<>(keys);
    }

    /** Undoes what {@link #of} did to a partition filter. */
    static Divided divide(PartitionPredicate filter, TableSchema schema) {
        try {
            return divided(filter, schema);
        } catch (LinkageError e) {
            // A release in which nothing is offered.
            return new Divided(filter, Collections.emptyList());
        }
    }

    private static Divided divided(PartitionPredicate filter, TableSchema schema) {
        List<PartitionPredicate> partitions = new ArrayList<>();
        List<Predicate> others = new ArrayList<>();
        RowType row = schema.logicalRowType();
        int[] places = of(schema).stream().mapToInt(row::getFieldIndex).toArray();
        for (PartitionPredicate part : partsOf(filter)) {
            Predicate predicate =
                    part instanceof PartitionPredicate.DefaultPartitionPredicate
                            ? ((PartitionPredicate.DefaultPartitionPredicate) part).predicate()
                            : null;
            if (predicate == null
                    || schema.partitionKeys().containsAll(PredicateVisitor.collectFieldNames(predicate))) {
                partitions.add(part);
            } else {
                PredicateBuilder.transformFieldMapping(predicate, places).ifPresent(others::add);
            }
        }
        return new Divided(PartitionPredicate.and(partitions), others);
    }

    @SuppressWarnings("unchecked")
    static List<PartitionPredicate> partsOf(PartitionPredicate filter) {
        if (PARTS == null || !PARTS.getDeclaringClass().isInstance(filter)) {
            return Collections.singletonList(filter);
        }
        try {
            return (List<PartitionPredicate>) PARTS.invoke(filter);
        } catch (IllegalAccessException | InvocationTargetException e) {
            throw new IllegalStateException(e);
        }
    }
}
