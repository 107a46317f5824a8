package org.paimonindex;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.EnumMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.ObjectName;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How many scans of this JVM became what; readable by JMX as {@code org.paimonindex:type=Scans}. */
final class Scans implements ScansMXBean {

    private static final long MINUTE = Duration.ofMinutes(1).toNanos();

    private static final Map<Outcome, AtomicLong> COUNTS = new EnumMap<>(Outcome.class);
    private static final Map<Outcome, AtomicLong> NEXT_LINE = new EnumMap<>(Outcome.class);

    static {
        for (Outcome outcome : Outcome.values()) {
            COUNTS.put(outcome, new AtomicLong());
            NEXT_LINE.put(outcome, new AtomicLong(System.nanoTime()));
        }
        try {
            ManagementFactory.getPlatformMBeanServer()
                    .registerMBean(new Scans(), new ObjectName("org.paimonindex:type=Scans"));
        } catch (JMException e) {
            // Two class loaders have the jar: the counters of the first one are shown.
            LoggerFactory.getLogger(Scans.class).debug("scans are counted elsewhere", e);
        }
    }

    private Scans() {}

    static void count(Outcome outcome) {
        COUNTS.get(outcome).incrementAndGet();
    }

    /** Logs why the engine planned: at most one line a minute for each outcome. */
    static void explain(Logger log, PlannedTable table, Outcome outcome, String reason) {
        boolean isOrdinary = outcome == Outcome.NO_FILTER || outcome == Outcome.NOT_SELECTIVE;
        if (isOrdinary) {
            log.debug("{} is planned by the engine: {}", table, reason);
            return;
        }
        AtomicLong next = NEXT_LINE.get(outcome);
        long now = System.nanoTime();
        long due = next.get();
        if (now - due >= 0 && next.compareAndSet(due, now + MINUTE)) {
            log.warn("{} is planned by the engine: {}", table, reason);
        }
    }

    @Override
    public Map<String, Long> getOutcomes() {
        return counts();
    }

    static Map<String, Long> counts() {
        Map<String, Long> counts = new TreeMap<>();
        COUNTS.forEach((outcome, count) -> counts.put(outcome.name().toLowerCase(Locale.ROOT), count.get()));
        return counts;
    }
}
