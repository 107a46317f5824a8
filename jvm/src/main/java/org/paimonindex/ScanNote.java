package org.paimonindex;

import java.io.Serializable;

/**
 * Who made the last plan of a table's scan, beside its name in Spark's {@code EXPLAIN} and SQL tab.
 *
 * <p>Spark copies the table for each scan that it builds, so a table here has one scan.
 */
final class ScanNote implements Serializable {

    private static final long serialVersionUID = 1L;

    private static final int MOST_CHARACTERS = 300;

    /** Null before a plan. */
    private transient volatile String text;

    void planned(long read, long total) {
        text = String.format("planned by paimon-index: %d of %d files", read, total);
    }

    void observed() {
        text = "planned by the engine: observed";
    }

    void left(NotAskedException reason) {
        String cause = reason.text();
        boolean isLong = cause.length() > MOST_CHARACTERS;
        text = "planned by the engine: " + (isLong ? cause.substring(0, MOST_CHARACTERS) + "…" : cause);
    }

    /** The name, with the note if the connector's scan describes itself. */
    String beside(String name) {
        boolean isShown =
                text != null
                        && Caller.is(
                                frame ->
                                        frame.getClassName().startsWith("org.apache.paimon.spark.")
                                                && frame.getMethodName().startsWith("description"));
        return isShown ? name + " (" + text + ")" : name;
    }
}
