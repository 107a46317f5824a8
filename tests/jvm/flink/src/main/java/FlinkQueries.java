import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.openmbean.CompositeData;
import javax.management.openmbean.TabularData;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.runtime.minicluster.MiniCluster;
import org.apache.flink.runtime.minicluster.MiniClusterConfiguration;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.types.Row;
import org.apache.flink.util.CloseableIterator;

/**
 * SQL in Flink, with and without the service.
 *
 * <pre>
 * FlinkQueries batch|streaming [OPTION=VALUE ...]    options of Flink's configuration
 * standard input   a word, a tab, and what it is about:
 *                  sql STATEMENT; first QUERY, whose first row ends it; compare QUERY with {c} for the catalogs plain and indexed;
 *                  outcomes [PORT] of this JVM, or of the one with that port of JMX
 * standard output  {"rows": [...]}, {"rows": n, "equal": b}, {"outcome": n, ...} a line, or {"error": text}
 * </pre>
 */
public final class FlinkQueries {

    private static final ObjectName SCANS = name();

    private FlinkQueries() {}

    private static ObjectName name() {
        try {
            return new ObjectName("org.paimonindex:type=Scans");
        } catch (Exception e) {
            throw new IllegalStateException(e);
        }
    }

    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new Configuration();
        for (int i = 1; i < arguments.length; i++) {
            String[] pair = arguments[i].split("=", 2);
            configuration.setString(pair[0], pair[1]);
        }
        if (!configuration.containsKey("execution.target")) {
            startCluster(configuration);
        }
        EnvironmentSettings.Builder settings = EnvironmentSettings.newInstance().withConfiguration(configuration);
        boolean isBatch = arguments[0].equals("batch");
        TableEnvironment flink =
                TableEnvironment.create((isBatch ? settings.inBatchMode() : settings.inStreamingMode()).build());
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            answers.println(answer(flink, line.split("\t", 2)));
        }
        System.exit(0);
    }

    /** One for all jobs: a local one would be started for each of them. */
    private static void startCluster(Configuration configuration) throws Exception {
        MiniCluster cluster =
                new MiniCluster(
                        new MiniClusterConfiguration.Builder()
                                .setConfiguration(configuration)
                                .setNumTaskManagers(1)
                                .setNumSlotsPerTaskManager(2)
                                .build());
        cluster.start();
        configuration.setString("execution.target", "remote");
        configuration.setString("rest.port", Integer.toString(cluster.getRestAddress().get().getPort()));
    }

    private static String answer(TableEnvironment flink, String[] request) {
        try {
            switch (request[0]) {
                case "sql":
                    List<String> rows = rows(flink, request[1]);
                    StringBuilder listed = new StringBuilder();
                    rows.forEach(row -> listed.append(listed.length() == 0 ? "" : ",").append(quoted(row)));
                    return "{\"rows\":[" + listed + "]}";
                case "first":
                    try (CloseableIterator<Row> result = flink.executeSql(request[1]).collect()) {
                        return "{\"rows\":[" + quoted(result.next().toString()) + "]}";
                    }
                case "compare":
                    List<String> engines = rows(flink, request[1].replace("{c}", "plain"));
                    boolean isEqual;
                    try {
                        isEqual = engines.equals(rows(flink, request[1].replace("{c}", "indexed")));
                    } catch (Exception e) {
                        return "{\"only\":" + quoted(text(e)) + "}";
                    }
                    return "{\"rows\":" + engines.size() + ",\"equal\":" + isEqual + "}";
                default:
                    return outcomes(request.length == 1 ? null : request[1]);
            }
        } catch (Exception e) {
            return "{\"error\":" + quoted(text(e)) + "}";
        }
    }

    /** Threads of releases before 1.2 change one map at once while the engine plans by embedded indexes, and some fail. */
    private static List<String> rows(TableEnvironment flink, String statement) throws Exception {
        while (true) {
            try {
                return rowsOf(flink, statement);
            } catch (Exception e) {
                if (!text(e).contains("ConcurrentModificationException")) {
                    throw e;
                }
            }
        }
    }

    private static List<String> rowsOf(TableEnvironment flink, String statement) throws Exception {
        List<String> rows = new ArrayList<>();
        try (CloseableIterator<Row> result = flink.executeSql(statement).collect()) {
            result.forEachRemaining(row -> rows.add(row.toString()));
        }
        Collections.sort(rows);
        return rows;
    }

    private static String outcomes(String port) throws Exception {
        if (port == null) {
            return counts(ManagementFactory.getPlatformMBeanServer());
        }
        JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi");
        try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
            return counts(connector.getMBeanServerConnection());
        }
    }

    private static String counts(MBeanServerConnection server) throws Exception {
        Map<String, Object> counts = new TreeMap<>();
        if (server.isRegistered(SCANS)) {
            for (Object value : ((TabularData) server.getAttribute(SCANS, "Outcomes")).values()) {
                counts.put(((CompositeData) value).get("key").toString(), ((CompositeData) value).get("value"));
            }
        }
        StringBuilder members = new StringBuilder();
        counts.forEach(
                (key, value) ->
                        members.append(members.length() == 0 ? "" : ",").append('"' + key + "\":" + value));
        return "{" + members + "}";
    }

    private static String text(Throwable thrown) {
        StringBuilder causes = new StringBuilder();
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            causes.insert(0, cause + " < ");
        }
        return causes.toString();
    }

    private static String quoted(String text) {
        StringBuilder quoted = new StringBuilder("\"");
        for (char each : text.toCharArray()) {
            quoted.append(each < ' ' || each == '"' || each == '\\' ? String.format("\\u%04x", (int) each) : each);
        }
        return quoted.append('"').toString();
    }
}
