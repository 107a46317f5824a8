package org.paimonindex;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.data.BinaryRow;
import org.apache.paimon.options.ConfigOption;
import org.apache.paimon.partition.PartitionPredicate;
import org.apache.paimon.predicate.CompoundPredicate;
import org.apache.paimon.predicate.IsNotNull;
import org.apache.paimon.predicate.LeafPredicate;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.types.DataField;
import org.apache.paimon.types.DataTypeRoot;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.utils.RowDataToObjectArrayConverter;

/**
 * What a scan asks of the service: its filter, the partitions that it wants, and the version that it reads.
 *
 * <p>A scan asks only where every option in force is known not to change the answer.
 */
final class Question {

    private static final String DATA_EVOLUTION = "data-evolution.enabled";

    /** Options whose value, wherever it comes from, leaves the scan to the engine unless it is this one. */
    private static final Map<String, List<String>> ASKED_WITH = new HashMap<>();

    static {
        ASKED_WITH.put("batch-scan-mode", Collections.singletonList("none"));
        ASKED_WITH.put("branch", Collections.singletonList("main"));
        ASKED_WITH.put("scan.mode", Arrays.asList("default", "full", "latest-full", "latest", "from-snapshot"));
        for (String option :
                Arrays.asList(
                        "chain-table.enabled",
                        "deletion-vectors.merge-on-read",
                        "postpone.merge-on-read",
                        "query-auth.enabled",
                        DATA_EVOLUTION)) {
            ASKED_WITH.put(option, Collections.singletonList("false"));
        }
    }

    /** Indexes of release 2.1 for tables with a primary key, which need all files of a level. */
    private static final Pattern PRIMARY_KEY_INDEX = Pattern.compile("pk-[a-z-]+\\.index\\.columns");

    /** Options that name the version; each has its member of the question. */
    private static final Map<String, String> VERSIONS = new HashMap<>();

    static {
        VERSIONS.put("scan.snapshot-id", "snapshot_id");
        VERSIONS.put("scan.tag-name", "tag");
    }

    /** Options of a session that change how splits are made and files are read, but neither rows nor files. */
    private static final List<String> HARMLESS =
            Arrays.asList(
                    "path",
                    "read.batch-size",
                    "file-reader-async-threshold",
                    "source.split.target-size",
                    "source.split.open-file-cost",
                    "scan.manifest.parallelism",
                    "scan.plan-sort-partition",
                    "scan.parallelism",
                    "scan.infer-parallelism",
                    "scan.infer-parallelism.max",
                    "scan.split-enumerator.mode",
                    "scan.split-enumerator.batch-size",
                    "write-only",
                    "write-buffer-size",
                    "write-buffer-spillable",
                    "target-file-size",
                    "file.compression",
                    "snapshot.expire.execution-mode",
                    "snapshot.num-retained.min",
                    "snapshot.num-retained.max",
                    "snapshot.time-retained",
                    "commit.user-prefix");

    /** Options of any of these kinds say what is read in ways that the service is not told. */
    private static final List<String> NOT_ASKED = Arrays.asList("scan.", "incremental-", "consumer", "streaming");

    /** The options of the engine that runs, and what they were called before. */
    private static final Set<String> ENGINES = enginesOptions();
    /** Its options of these kinds are in no list: they name a column, or are a connector's. */
    private static final List<String> UNLISTED = Arrays.asList("fields.", "file-index.", "read.", "log.");

    private static final double MOST_SHARE = 0.5;
    private static final int MOST_KEYS = 10_000;

    private Question() {}

    private static Set<String> enginesOptions() {
        Set<String> keys = new HashSet<>();
        for (ConfigOption<?> option : CoreOptions.getOptions()) {
            keys.add(option.key());
            option.fallbackKeys().forEach(former -> keys.add(former.getKey()));
        }
        return keys;
    }

    /**
     * The body of the request.
     *
     * @param budgetMillis how long the service may read indexes
     * @throws NotAskedException the engine plans this scan
     */
    static String of(RecordedScan scan, long budgetMillis) throws NotAskedException {
        Predicate asked = filter(scan);
        if (scan.planned().isCatalogManaged) {
            throw new NotAskedException(
                    Outcome.CATALOG_MANAGED,
                    "its catalog keeps its snapshots, or gives tokens for its files, and the service asks no catalog");
        }
        String filter;
        try {
            filter = Filters.json(asked);
        } catch (RuntimeException e) {
            throw new NotAskedException(Outcome.NO_FILTER, "the filter has no form in JSON: " + e);
        }
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("max_staleness_ms", 0);
        members.put("budget_ms", budgetMillis);
        members.put("most_share", MOST_SHARE);
        members.putAll(version(scan.table().options(), scan.planned().storedOptions));
        return "{\"filter\":" + filter + "," + JsonSerdeUtil.toFlatJson(members).substring(1);
    }

    private static Predicate filter(RecordedScan scan) throws NotAskedException {
        List<Predicate> all = new ArrayList<>();
        scan.steps()
                .filter(step -> step.is("withFilter", Predicate.class))
                .forEach(step -> all.add((Predicate) step.arguments[0]));
        if (all.size() > 1) {
            throw new NotAskedException(Outcome.NO_FILTER, "the scan has several filters");
        }
        BloomFilters blooms = new BloomFilters(scan.table().schema());
        List<Predicate> keys = keys(scan.runtimeKeys(), blooms);
        if (keys.isEmpty() && (all.isEmpty() || onlyNotNull(all.get(0)))) {
            throw new NotAskedException(Outcome.NO_FILTER, padded(scan));
        }
        if (keys.isEmpty() && blooms.kept(all.get(0)) > MOST_SHARE) {
            throw new NotAskedException(
                    Outcome.NOT_SELECTIVE,
                    String.format(
                            Locale.ROOT,
                            "not asked, since false positives of bloom filters keep %.0f %% of the files: declare a lower "
                                    + "fpp, or another kind of index",
                            100 * blooms.kept(all.get(0))));
        }
        all.addAll(keys);
        RowType partitions = scan.table().schema().logicalPartitionType();
        scan.steps()
                .filter(step -> step.is("withPartitionFilter", PartitionPredicate.class))
                .flatMap(step -> RuntimeKeys.partsOf((PartitionPredicate) step.arguments[0]).stream())
                .map(part -> partitionFilter(part, partitions))
                .forEach(all::addAll);
        return PredicateBuilder.and(all);
    }

    /** Keys that are too many take longer to send, or to look up in bloom filters, than what they save. */
    private static List<Predicate> keys(List<Predicate> found, BloomFilters blooms) {
        return found.stream()
                .filter(predicate -> literals(predicate) <= MOST_KEYS && blooms.kept(predicate) <= MOST_SHARE)
                .collect(Collectors.toList());
    }

    /** Why a scan may have no filter although its query has; empty where nothing is known of that. */
    private static String padded(RecordedScan scan) {
        String columns =
                scan.table().schema().fields().stream()
                        .filter(field -> field.type().getTypeRoot() == DataTypeRoot.CHAR)
                        .map(DataField::name)
                        .collect(Collectors.joining(", "));
        return columns.isEmpty()
                ? ""
                : "Spark pushes no condition on a CHAR column (" + columns + ") unless spark.sql.readSideCharPadding is "
                        + "false and spark.sql.legacy.noCharPaddingInPredicate is true";
    }

    private static int literals(Predicate predicate) {
        return predicate instanceof CompoundPredicate
                ? ((CompoundPredicate) predicate).children().stream().mapToInt(Question::literals).sum()
                : ((LeafPredicate) predicate).literals().size();
    }

    private static boolean onlyNotNull(Predicate predicate) {
        if (predicate instanceof CompoundPredicate) {
            return ((CompoundPredicate) predicate).children().stream().allMatch(Question::onlyNotNull);
        }
        return predicate instanceof LeafPredicate
                && ((LeafPredicate) predicate).function() instanceof IsNotNull;
    }

    /** The same in terms of columns; none for what cannot be said so, which the engine then tests alone. */
    private static List<Predicate> partitionFilter(PartitionPredicate filter, RowType partitions) {
        if (filter instanceof PartitionPredicate.DefaultPartitionPredicate) {
            return Collections.singletonList(((PartitionPredicate.DefaultPartitionPredicate) filter).predicate());
        }
        if (!(filter instanceof PartitionPredicate.MultiplePartitionPredicate)) {
            return Collections.emptyList();
        }
        PredicateBuilder columns = new PredicateBuilder(partitions);
        RowDataToObjectArrayConverter values = new RowDataToObjectArrayConverter(partitions);
        List<Predicate> any = new ArrayList<>();
        for (BinaryRow row : ((PartitionPredicate.MultiplePartitionPredicate) filter).partitions()) {
            List<Predicate> all = new ArrayList<>();
            Object[] fields = values.convert(row);
            for (int i = 0; i < fields.length; i++) {
                all.add(fields[i] == null ? columns.isNull(i) : columns.equal(i, fields[i]));
            }
            any.add(PredicateBuilder.and(all));
        }
        return any.isEmpty() ? Collections.emptyList() : Collections.singletonList(PredicateBuilder.or(any));
    }

    private static Map<String, Object> version(Map<String, String> options, Map<String, String> stored)
            throws NotAskedException {
        Map<String, Object> found = new LinkedHashMap<>();
        for (Map.Entry<String, String> option : options.entrySet()) {
            String key = option.getKey();
            String value = option.getValue();
            if (PRIMARY_KEY_INDEX.matcher(key).matches()) {
                throw new NotAskedException(
                        Outcome.PRIMARY_KEY_INDEX,
                        key + " = " + value + ": this index of the engine's own finds rows, and needs all files");
            }
            if (VERSIONS.containsKey(key)) {
                found.put(VERSIONS.get(key), key.equals("scan.snapshot-id") ? (Object) Long.valueOf(value) : value);
                continue;
            }
            List<String> known = ASKED_WITH.get(key);
            boolean asked = known == null ? isHarmless(key, value, stored) : known.contains(value);
            if (!asked && key.equals(DATA_EVOLUTION)) {
                // The engine reads by row ids what a snapshot of files would have it read as a whole.
                throw new NotAskedException(
                        Outcome.DATA_EVOLUTION, key + " = " + value + ": the engine finds its rows by global indexes");
            }
            if (!asked) {
                throw new NotAskedException(Outcome.OPTION, "the option " + key + " = " + value + " is in force");
            }
        }
        return found;
    }

    private static boolean isHarmless(String key, String value, Map<String, String> stored) {
        if (HARMLESS.contains(key)) {
            return true;
        }
        if (NOT_ASKED.stream().anyMatch(key::startsWith)) {
            return false;
        }
        // Flink has its own configuration among the options of a table: rest.port, and whatever else there is.
        boolean isOthers =
                !ENGINES.contains(key)
                        && !stored.containsKey(key)
                        && UNLISTED.stream().noneMatch(key::startsWith);
        return isOthers || value.equals(stored.get(key));
    }

    /** Whether the options name the version that is read; without one it is the latest. */
    static boolean namesVersion(Map<String, String> options) {
        return VERSIONS.keySet().stream().anyMatch(options::containsKey);
    }

    /** The table's options without those that name a version. */
    static Map<String, String> withoutVersion(Map<String, String> options) {
        Map<String, String> left = new LinkedHashMap<>(options);
        left.keySet().removeAll(VERSIONS.keySet());
        left.remove("scan.mode");
        return left;
    }
}
