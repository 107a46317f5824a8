package org.paimonindex;

import java.util.Map;

/** What JMX shows of {@link Scans}, since the JVM started. */
public interface ScansMXBean {

    /** Counts of scans by their outcome. */
    Map<String, Long> getOutcomes();

    /** Questions put to a service. */
    long getAsked();

    /** Milliseconds that scans waited for a service, together. */
    long getAskingMillis();

    /** What the scans read that the service planned: {@code files}, {@code rows} and {@code bytes}. */
    Map<String, Long> getPlanned();

    /** What indexes beside data files left out of these tables; the engine leaves out the rest without a service. */
    Map<String, Long> getPlannedSkipped();

    /** What the engine read of the scans that were observed. */
    Map<String, Long> getObserved();

    /** What the service's plan would have left out of that. */
    Map<String, Long> getObservedSkipped();
}
