import com.sun.management.OperatingSystemMXBean;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import org.apache.paimon.catalog.CatalogContext;
import org.apache.paimon.catalog.CatalogFactory;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.fs.Path;
import org.apache.paimon.globalindex.IndexedSplit;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.Split;

/** Plans each condition that a line of standard input has, for global_indexes.py. */
public final class GlobalIndexPlans {
    public static void main(String[] arguments) throws Exception {
        OperatingSystemMXBean system =
                (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
        Table table = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.trim().split(" ");
            long wall = System.nanoTime();
            long processor = system.getProcessCpuTime();
            int files = 0;
            if (words[0].equals("open")) {
                table =
                        CatalogFactory.createCatalog(CatalogContext.create(new Path(arguments[0])))
                                .getTable(Identifier.create("golden", "rows"));
            } else {
                files = plan(table, words);
            }
            double seconds = (System.nanoTime() - wall) / 1e9;
            System.out.printf(
                    "answer %.6f %.6f %d%n",
                    seconds, (system.getProcessCpuTime() - processor) / 1e9, files);
            System.out.flush();
        }
    }

    private static int plan(Table table, String[] words) {
        PredicateBuilder builder = new PredicateBuilder(table.rowType());
        List<Object> ids = new ArrayList<>();
        for (int at = 1; at < words.length; at++) {
            ids.add(Long.parseLong(words[at]));
        }
        Predicate predicate;
        switch (words[0]) {
            case "point":
                predicate = builder.equal(0, ids.get(0));
                break;
            case "in":
                predicate = builder.in(0, ids);
                break;
            default:
                predicate = builder.between(0, ids.get(0), ids.get(1));
        }
        int files = 0;
        for (Split split : table.newReadBuilder().withFilter(predicate).newScan().plan().splits()) {
            DataSplit data =
                    split instanceof IndexedSplit
                            ? ((IndexedSplit) split).dataSplit()
                            : (DataSplit) split;
            files += data.dataFiles().size();
        }
        return files;
    }
}
