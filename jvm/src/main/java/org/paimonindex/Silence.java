package org.paimonindex;

import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What nobody in this JVM asks for {@link #LENGTH}, since it was not answered.
 *
 * <p>A failed connection is the fault of a URL. A late answer may be that of a table, whose metadata are read for the
 * first time: the others are asked on. The URL is left alone when a second table in a row has no answer in time.
 */
final class Silence {

    private static final Duration LENGTH = Duration.ofSeconds(30);

    /** Until when a URL, or a table at a URL, is not asked, in {@link System#nanoTime}. */
    private static final Map<String, Long> UNTIL = new ConcurrentHashMap<>();
    /** The table that was late, of each URL whose last answer was. */
    private static final Map<URI, String> LATE = new ConcurrentHashMap<>();

    private Silence() {}

    static boolean isKept(URI uri, PlannedTable table) {
        return isKept(uri.toString()) || isKept(uri + " " + table);
    }

    private static boolean isKept(String name) {
        Long until = UNTIL.get(name);
        return until != null && System.nanoTime() - until < 0;
    }

    static void afterFailure(URI uri) {
        keep(uri.toString());
    }

    static void afterLateAnswer(URI uri, PlannedTable table) {
        keep(uri + " " + table);
        String earlier = LATE.put(uri, table.toString());
        if (earlier != null && !earlier.equals(table.toString())) {
            keep(uri.toString());
        }
    }

    private static void keep(String name) {
        UNTIL.put(name, System.nanoTime() + LENGTH.toNanos());
    }

    static void afterAnswer(URI uri) {
        LATE.remove(uri);
    }
}
