package org.paimonindex;

import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What nobody in this JVM asks for {@link #LENGTH}, since there was no answer, or none but that there is no such table.
 *
 * <p>A failed connection is the fault of a URL. A late answer may be that of a table, whose metadata are read for the
 * first time: the others are asked on. The URL is left alone when a second table in a row has no answer in time.
 * A table that it has not is not asked about, and says nothing about others.
 */
final class Silence {

    private static final Duration LENGTH = Duration.ofSeconds(30);

    /** Until when a URL, or a table at a URL, is not asked, in {@link System#nanoTime}. */
    private static final Map<String, Long> UNTIL = new ConcurrentHashMap<>();
    /** The table that was late, of each URL whose last answer was. */
    private static final Map<URI, String> LATE = new ConcurrentHashMap<>();

    private Silence() {}

    static boolean isKept(URI uri, PlannedTable table) {
        return isKept(uri.toString()) || isKept(nameOf(uri, table));
    }

    private static boolean isKept(String name) {
        Long until = UNTIL.get(name);
        return until != null && System.nanoTime() - until < 0;
    }

    static void afterFailure(URI uri) {
        keep(uri.toString());
    }

    static void afterLateAnswer(URI uri, PlannedTable table) {
        String name = nameOf(uri, table);
        keep(name);
        String earlier = LATE.put(uri, name);
        if (earlier != null && !earlier.equals(name)) {
            keep(uri.toString());
        }
    }

    static void afterUnknownTable(URI uri, PlannedTable table) {
        keep(nameOf(uri, table));
    }

    private static String nameOf(URI uri, PlannedTable table) {
        return uri + " " + table + " " + table.location;
    }

    private static void keep(String name) {
        long now = System.nanoTime();
        // A server that lives for months meets ever new tables.
        UNTIL.values().removeIf(until -> now - until >= 0);
        UNTIL.put(name, now + LENGTH.toNanos());
    }

    static void afterAnswer(URI uri) {
        LATE.remove(uri);
    }
}
