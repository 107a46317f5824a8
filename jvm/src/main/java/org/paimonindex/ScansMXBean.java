package org.paimonindex;

import java.util.Map;

/** What JMX shows of {@link Scans}. */
public interface ScansMXBean {

    /** Counts of scans by their outcome since the JVM started. */
    Map<String, Long> getOutcomes();
}
