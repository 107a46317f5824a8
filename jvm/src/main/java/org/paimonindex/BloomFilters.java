package org.paimonindex;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import org.apache.paimon.predicate.CompoundPredicate;
import org.apache.paimon.predicate.Equal;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.In;
import org.apache.paimon.predicate.IsNotNull;
import org.apache.paimon.predicate.LeafPredicate;
import org.apache.paimon.predicate.Or;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.schema.TableSchema;

/**
 * Estimates what false positives of a table's bloom filters keep, before anybody reads these.
 *
 * <p>A filter with a false positive probability of 0.1 passes one of 50 keys that it lacks in 99.5 % of the files.
 */
final class BloomFilters {

    private static final String PREFIX = "file-index.";
    private static final String COLUMNS = ".columns";
    private static final String KIND = "bloom-filter";
    private static final double DEFAULT_FPP = 0.1;

    private final Map<String, String> options;
    /** Columns that nothing but a bloom filter, and the statistics that the engine reads as well, can decide. */
    private final Set<String> columns;

    BloomFilters(TableSchema schema) {
        this.options = schema.options();
        this.columns = listed(KIND);
        for (String option : options.keySet()) {
            boolean isOther = option.startsWith(PREFIX) && option.endsWith(COLUMNS) && !option.equals(PREFIX + KIND + COLUMNS);
            if (isOther) {
                columns.removeAll(listed(option.substring(PREFIX.length(), option.length() - COLUMNS.length())));
            }
        }
        // Their buckets are found as well.
        columns.removeAll(schema.primaryKeys());
        columns.removeAll(schema.bucketKeys());
    }

    private Set<String> listed(String kind) {
        Set<String> listed = new HashSet<>();
        for (String column : options.getOrDefault(PREFIX + kind + COLUMNS, "").split(",")) {
            listed.add(column.trim());
        }
        return listed;
    }

    /** The share of files without a match that bloom filters keep; 0 where something else may decide. */
    double kept(Predicate predicate) {
        if (predicate instanceof CompoundPredicate) {
            CompoundPredicate compound = (CompoundPredicate) predicate;
            boolean isOr = Releases.function(compound) instanceof Or;
            double product = 1;
            for (Predicate child : compound.children()) {
                product *= isOr ? 1 - kept(child) : kept(child);
            }
            return isOr ? 1 - product : product;
        }
        return predicate instanceof LeafPredicate ? kept((LeafPredicate) predicate) : 0;
    }

    private double kept(LeafPredicate leaf) {
        if (leaf.function() instanceof IsNotNull) {
            return 1;
        }
        FieldRef column = Releases.column(leaf);
        boolean isPoints = leaf.function() instanceof Equal || leaf.function() instanceof In;
        return isPoints && column != null && columns.contains(column.name())
                ? 1 - Math.pow(1 - probability(column.name()), leaf.literals().size())
                : 0;
    }

    private double probability(String column) {
        try {
            String written = options.getOrDefault(PREFIX + KIND + "." + column + ".fpp", "");
            double stated = Double.parseDouble(written);
            return stated > 0 && stated < 1 ? stated : DEFAULT_FPP;
        } catch (NumberFormatException e) {
            return DEFAULT_FPP;
        }
    }
}
