package org.paimonindex;

import java.net.URI;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.stream.IntStream;
import org.apache.paimon.options.Options;
import org.apache.paimon.utils.TimeUtils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The options of the catalog that are about the service.
 *
 * <pre>
 * paimon-index.uri          URLs of the service, separated by commas; asked in this order until one answers
 * paimon-index.warehouse    the service's name of the warehouse; without it, the one that a table lies in
 * paimon-index.metastore    the catalog that is wrapped: filesystem, hive, jdbc or rest; default filesystem
 * paimon-index.token        a token of the service
 * paimon-index.token-file   a file that has it, read for each question; without both, the environment's PAIMON_INDEX_TOKEN
 * paimon-index.timeout      longest time that a query waits for the service in all; default 2 s
 * paimon-index.mode         plan, observe or off; default plan
 * </pre>
 */
final class ServiceOptions {

    enum Mode {
        /** The service's plan replaces the engine's. */
        PLAN,
        /** The service is asked and its plan compared with the engine's, which is the one that is used. */
        OBSERVE,
        /** The service is not asked. */
        OFF
    }

    static final String PREFIX = IndexCatalogFactory.IDENTIFIER + ".";

    private static final Logger LOG = LoggerFactory.getLogger(ServiceOptions.class);
    static final String WRAPPED = "the catalog to wrap: filesystem, hive, jdbc or rest, whose classes are beside this jar";

    private static final String TOKEN = PREFIX + "token";
    private static final List<String> NAMES =
            Arrays.asList("uri", "warehouse", "metastore", "token", "token-file", "timeout", "mode");

    final List<URI> uris;
    final String catalogWarehouse;
    final Optional<String> warehouse;
    final String metastore;
    final Optional<String> token;
    final Optional<Path> tokenFile;
    final Duration timeout;
    final Mode mode;

    private static final int MOST_SLIPS = 3;

    private final HashMap<String, String> withoutToken = new HashMap<>();

    private ServiceOptions(Options options) {
        options.keySet().forEach(ServiceOptions::checkName);
        this.mode = mode(options.getString(PREFIX + "mode", "plan"));
        this.uris = uris(options.getString(PREFIX + "uri", ""), mode);
        this.catalogWarehouse = options.getString("warehouse", "");
        this.warehouse = Optional.ofNullable(options.get(PREFIX + "warehouse"));
        if (warehouse.filter(String::isEmpty).isPresent()) {
            throw unusable("warehouse", "", "the service's name of the warehouse", null);
        }
        this.metastore = options.getString(PREFIX + "metastore", "filesystem");
        if (metastore.equals(IndexCatalogFactory.IDENTIFIER)) {
            throw unusable("metastore", metastore, WRAPPED, null);
        }
        this.token = Optional.ofNullable(options.getString(TOKEN, System.getenv("PAIMON_INDEX_TOKEN")));
        this.tokenFile = Optional.ofNullable(options.get(PREFIX + "token-file")).map(ServiceOptions::path);
        this.timeout = timeout(options.getString(PREFIX + "timeout", "2 s"));
        options.toMap()
                .forEach(
                        (key, value) -> {
                            if (key.equals("warehouse") || key.startsWith(PREFIX) && !key.equals(TOKEN)) {
                                withoutToken.put(key, value);
                            }
                        });
    }

    /** What a process elsewhere reads the same of, which has a token of its own. */
    HashMap<String, String> withoutToken() {
        return new HashMap<>(withoutToken);
    }

    /**
     * Reads the options of a catalog.
     *
     * @throws IllegalArgumentException an option that cannot be used; the catalog is not made
     */
    static ServiceOptions of(Options options) {
        return new ServiceOptions(options);
    }

    private static void checkName(String key) {
        if (!key.startsWith(PREFIX) || NAMES.contains(key.substring(PREFIX.length()))) {
            return;
        }
        String name = key.substring(PREFIX.length());
        String nearest = Collections.min(NAMES, Comparator.comparingInt(each -> distance(each, name)));
        boolean isAlike = distance(nearest, name) <= MOST_SLIPS;
        LOG.warn("{} is no option of the catalog{}", key, isAlike ? ": did you mean " + PREFIX + nearest + "?" : "");
    }

    /** How many characters have to be added, left out or replaced to make one text of another. */
    private static int distance(String one, String other) {
        int[] row = IntStream.rangeClosed(0, other.length()).toArray();
        for (int i = 1; i <= one.length(); i++) {
            int diagonal = row[0];
            row[0] = i;
            for (int j = 1; j <= other.length(); j++) {
                int replaced = diagonal + (one.charAt(i - 1) == other.charAt(j - 1) ? 0 : 1);
                diagonal = row[j];
                row[j] = Math.min(replaced, Math.min(row[j], row[j - 1]) + 1);
            }
        }
        return row[other.length()];
    }

    /** The error about an option whose value cannot be used. */
    static IllegalArgumentException unusable(String name, String value, String expected, Exception cause) {
        return new IllegalArgumentException(PREFIX + name + " is '" + value + "': expected " + expected, cause);
    }

    private static Mode mode(String text) {
        try {
            return Mode.valueOf(text.toUpperCase(Locale.ROOT));
        } catch (IllegalArgumentException e) {
            throw unusable("mode", text, "plan, observe or off", e);
        }
    }

    private static Duration timeout(String text) {
        IllegalArgumentException cause = null;
        try {
            Duration read = TimeUtils.parseDuration(text);
            if (read.toMillis() > 0) {
                return read;
            }
        } catch (IllegalArgumentException | ArithmeticException e) {
            cause = new IllegalArgumentException(e);
        }
        throw unusable("timeout", text, "a time such as 2 s or 500 ms", cause);
    }

    private static Path path(String text) {
        try {
            return Paths.get(text);
        } catch (InvalidPathException e) {
            throw unusable("token-file", text, "the path of a file of this machine", e);
        }
    }

    private static List<URI> uris(String text, Mode mode) {
        List<URI> found = new ArrayList<>();
        for (String each : text.split(",")) {
            if (!each.trim().isEmpty()) {
                found.add(uri(each.trim().replaceAll("/+$", "")));
            }
        }
        if (found.isEmpty() && mode != Mode.OFF) {
            throw new IllegalArgumentException(
                    PREFIX + "uri is not set: name the service, such as http://paimon-index:8080");
        }
        return Collections.unmodifiableList(found);
    }

    private static URI uri(String text) {
        IllegalArgumentException cause = null;
        try {
            URI uri = URI.create(text);
            boolean isWeb = "http".equalsIgnoreCase(uri.getScheme()) || "https".equalsIgnoreCase(uri.getScheme());
            if (isWeb && uri.getHost() != null) {
                return uri;
            }
        } catch (IllegalArgumentException e) {
            cause = e;
        }
        throw unusable("uri", text, "URLs such as http://paimon-index:8080, separated by commas", cause);
    }
}
