import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.options.Options;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.utils.InstantiationUtil;

/**
 * Plans of the table golden.bench by the engine alone, and through the catalog of the service.
 *
 * <pre>
 * PlannedSplits WAREHOUSE URI
 * standard output  a line for each planner and filter: k one key, 100 k a hundred, p some partitions, all no filter
 * </pre>
 */
public final class PlannedSplits {

    private static final int RUNS = 7;
    private static final Random RANDOM = new Random(7);

    private PlannedSplits() {}

    public static void main(String[] arguments) throws Exception {
        for (String planner : List.of("engine", "catalog")) {
            Map<String, String> options = new HashMap<>(Map.of("warehouse", arguments[0]));
            if (!planner.equals("engine")) {
                options.putAll(
                        Map.of(
                                "metastore", "paimon-index",
                                "paimon-index.uri", arguments[1],
                                "paimon-index.timeout", "60 s"));
            }
            try (Catalog catalog =
                    CatalogFactory.createCatalog(CatalogContext.create(Options.fromMap(options)))) {
                for (String filter : List.of("k", "100 k", "p", "all")) {
                    measure(planner, filter, catalog);
                }
            }
        }
        System.exit(0);
    }

    private static void measure(String planner, String filter, Catalog catalog) throws Exception {
        List<Double> times = new ArrayList<>();
        long files = 0;
        long bytes = 0;
        List<Split> splits = List.of();
        for (int run = 0; run < RUNS; run++) {
            Table table = catalog.getTable(Identifier.create("golden", "bench"));
            PredicateBuilder columns = new PredicateBuilder(table.rowType());
            ReadBuilder builder = table.newReadBuilder();
            Predicate predicate = null;
            if (filter.equals("k")) {
                predicate = columns.equal(0, key());
            } else if (filter.equals("100 k")) {
                predicate = columns.in(0, IntStream.range(0, 100).mapToObj(i -> key()).collect(Collectors.toList()));
            } else if (filter.equals("p")) {
                predicate = columns.lessThan(1, 5);
            }
            if (predicate != null) {
                builder.withFilter(predicate);
            }
            long begun = System.nanoTime();
            splits = builder.newScan().plan().splits();
            times.add((System.nanoTime() - begun) / 1e6);
        }
        for (Split split : splits) {
            files += ((DataSplit) split).dataFiles().size();
            bytes += InstantiationUtil.serializeObject(split).length;
        }
        double first = times.remove(0);
        Collections.sort(times);
        System.out.printf(
                "%s, %s: first %.0f ms, later %.1f ms, %d files, %d splits of %d bytes%n",
                planner, filter, first, times.get(times.size() / 2), files, splits.size(), bytes);
    }

    private static Object key() {
        return RANDOM.nextLong() & Long.MAX_VALUE >> 1;
    }
}
