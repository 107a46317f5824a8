package org.paimonindex;

import java.net.URI;
import java.time.Duration;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;

/**
 * What nobody in this JVM asks for {@link #LENGTH}, since there was no answer, or none but that there is no such table.
 *
 * <p>A failed connection is the fault of a URL. A late answer may be that of a table, whose metadata are read for the
 * first time: the others are asked on, and so is this one once its answer has come, for which no query waits. The URL
 * is left alone when a second table in a row has no answer in time. A table that it has not is not asked about, and
 * says nothing about others.
 */
final class Silence {

    private static final Duration LENGTH = Duration.ofSeconds(30);
    private static final int MOST_KNOWN = 10_000;

    /** URLs, and tables at a URL, that are not asked. */
    private static final Map<String, Silence> KEPT = new ConcurrentHashMap<>();
    /** The table that was late, of each URL whose last answer was. */
    private static final Map<URI, String> LATE = new ConcurrentHashMap<>();
    /** Tables that have been asked about at a URL. */
    private static final Set<String> KNOWN = ConcurrentHashMap.newKeySet();

    private final String cause;
    /** In {@link System#nanoTime}. */
    private final long until;

    private Silence(String cause) {
        this.cause = cause;
        this.until = System.nanoTime() + LENGTH.toNanos();
    }

    /** Why a table is not asked about at a URL; empty where it is asked about. */
    static Optional<String> cause(URI uri, PlannedTable table) {
        Optional<String> of = cause(uri.toString());
        return of.isPresent() ? of : cause(nameOf(uri, table));
    }

    private static Optional<String> cause(String name) {
        return Optional.ofNullable(KEPT.get(name)).filter(Silence::isOn).map(silence -> silence.cause);
    }

    private boolean isOn() {
        return System.nanoTime() - until < 0;
    }

    static void afterFailure(URI uri, String cause) {
        keep(uri.toString(), cause);
    }

    static void afterLateAnswer(URI uri, PlannedTable table, String cause) {
        String name = nameOf(uri, table);
        keep(name, cause);
        String earlier = LATE.put(uri, name);
        if (earlier != null && !earlier.equals(name)) {
            keep(uri.toString(), cause);
        }
    }

    static void afterUnknownTable(URI uri, PlannedTable table, String cause) {
        keep(nameOf(uri, table), cause);
    }

    private static String nameOf(URI uri, PlannedTable table) {
        return uri + " " + table + " " + table.location;
    }

    private static void keep(String name, String cause) {
        // A server that lives for months meets ever new tables.
        KEPT.values().removeIf(silence -> !silence.isOn());
        KEPT.put(name, new Silence(cause));
    }

    static void afterAnswer(URI uri) {
        LATE.remove(uri);
    }

    /** Whether a table has not been asked about at a URL yet; from now on it has. */
    static boolean isFirst(URI uri, PlannedTable table) {
        if (KNOWN.size() >= MOST_KNOWN) {
            KNOWN.clear();
        }
        return KNOWN.add(nameOf(uri, table));
    }

    /** Has a table asked about again whose answer came late. */
    static void end(URI uri, PlannedTable table) {
        LATE.remove(uri);
        KEPT.remove(uri.toString());
        KEPT.remove(nameOf(uri, table));
    }
}
