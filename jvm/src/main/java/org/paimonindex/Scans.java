package org.paimonindex;

import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.EnumMap;
import java.util.HashMap;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import javax.management.JMException;
import javax.management.ObjectName;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableScan;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** How many scans of this JVM became what; readable by JMX as {@code org.paimonindex:type=Scans}. */
public final class Scans implements ScansMXBean {

    private static final Logger LOG = LoggerFactory.getLogger(Scans.class);
    private static final String LEFT = "{} is planned by the engine: {}";
    private static final long MINUTE = Duration.ofMinutes(1).toNanos();

    private static final Map<Outcome, AtomicLong> COUNTS = new EnumMap<>(Outcome.class);
    /** When an outcome, or a table that the service plans, may have a line again, in {@link System#nanoTime}. */
    private static final Map<Object, AtomicLong> NEXT_LINE = new ConcurrentHashMap<>();
    private static final AtomicLong ASKED = new AtomicLong();
    private static final AtomicLong ASKING = new AtomicLong();
    private static final Amount PLANNED = new Amount();
    private static final Amount PLANNED_SKIPPED = new Amount();
    private static final Amount OBSERVED = new Amount();
    private static final Amount OBSERVED_SKIPPED = new Amount();

    static {
        for (Outcome outcome : Outcome.values()) {
            COUNTS.put(outcome, new AtomicLong());
        }
        try {
            ManagementFactory.getPlatformMBeanServer()
                    .registerMBean(new Scans(), new ObjectName("org.paimonindex:type=Scans"));
        } catch (JMException e) {
            // Two class loaders have the jar: the counters of the first one are shown.
            LOG.debug("scans are counted elsewhere", e);
        }
    }

    /** Files of scans. */
    private static final class Amount {

        private final AtomicLong files = new AtomicLong();
        private final AtomicLong rows = new AtomicLong();
        private final AtomicLong bytes = new AtomicLong();

        void add(Iterable<DataFileMeta> added) {
            for (DataFileMeta file : added) {
                files.incrementAndGet();
                rows.addAndGet(Releases.rows(file));
                bytes.addAndGet(Releases.bytes(file));
            }
        }

        void add(Amount other) {
            files.addAndGet(other.files.get());
            rows.addAndGet(other.rows.get());
            bytes.addAndGet(other.bytes.get());
        }

        Map<String, Long> members() {
            Map<String, Long> members = new TreeMap<>();
            members.put("files", files.get());
            members.put("rows", rows.get());
            members.put("bytes", bytes.get());
            return members;
        }
    }

    private Scans() {}

    private static void count(Outcome outcome) {
        COUNTS.get(outcome).incrementAndGet();
    }

    static void asked(long nanos) {
        ASKED.incrementAndGet();
        ASKING.addAndGet(nanos);
    }

    /** Counts what a plan of the service's reads, and what indexes beside data files leave out: at most one line a minute for each table. */
    static void planned(RecordedScan scan, TableScan.Plan plan, PrunedSnapshot answer) {
        count(Outcome.PLANNED);
        Amount read = new Amount();
        read.add(files(plan).values());
        PLANNED.add(read);
        Amount skipped = new Amount();
        skipped.files.set(answer.spared("files"));
        skipped.rows.set(answer.spared("rows"));
        skipped.bytes.set(answer.spared("bytes"));
        scan.note().planned(read.files.get(), answer.filesTotal());
        PLANNED_SKIPPED.add(skipped);
        if (mayLog(scan.planned().toString())) {
            LOG.info(
                    "{} is planned by paimon-index: {} is read and {} left out by indexes; {} in all queries so far",
                    scan.planned(),
                    read.members(),
                    skipped.members(),
                    PLANNED_SKIPPED.members());
        }
    }

    /** Counts what the service would have left out of the engine's plan. */
    static void observed(RecordedScan scan, TableScan.Plan engine, TableScan.Plan answered) {
        count(Outcome.OBSERVED);
        scan.note().observed();
        Map<String, DataFileMeta> read = files(engine);
        Map<String, DataFileMeta> skipped = new HashMap<>(read);
        skipped.keySet().removeAll(files(answered).keySet());
        OBSERVED.add(read.values());
        OBSERVED_SKIPPED.add(skipped.values());
        if (mayLog(Outcome.OBSERVED)) {
            LOG.info(
                    "{}: the engine read {} files, {} of them in vain; {} of {} in all queries so far",
                    scan.planned(),
                    read.size(),
                    skipped.size(),
                    OBSERVED_SKIPPED.members(),
                    OBSERVED.members());
        }
    }

    /** The data files of a plan by their names. */
    static Map<String, DataFileMeta> files(TableScan.Plan plan) {
        Map<String, DataFileMeta> files = new HashMap<>();
        for (Split split : plan.splits()) {
            if (split instanceof DataSplit) {
                ((DataSplit) split).dataFiles().forEach(file -> files.put(Releases.fileName(file), file));
            }
        }
        return files;
    }

    /** Counts a scan that the engine plans, and logs why: at most one line a minute for each outcome. */
    static void left(Object table, NotAskedException reason) {
        count(reason.outcome);
        if (reason.isOrdinary()) {
            LOG.debug(LEFT, table, reason.text());
        } else if (mayLog(reason.outcome)) {
            LOG.warn(LEFT, table, reason.getMessage());
        }
    }

    private static boolean mayLog(Object about) {
        AtomicLong next = NEXT_LINE.computeIfAbsent(about, key -> new AtomicLong(System.nanoTime()));
        long now = System.nanoTime();
        long due = next.get();
        return now - due >= 0 && next.compareAndSet(due, now + MINUTE);
    }

    static Map<String, Long> counts() {
        Map<String, Long> counts = new TreeMap<>();
        COUNTS.forEach((outcome, count) -> counts.put(outcome.name().toLowerCase(Locale.ROOT), count.get()));
        return counts;
    }

    /** All of it for a session without JMX, such as one in Python: outcomes that were, and files, rows and bytes. */
    public static Map<String, Long> totals() {
        Map<String, Long> totals = counts();
        totals.values().removeIf(count -> count == 0);
        PLANNED.members().forEach((name, value) -> totals.put(name + " read", value));
        PLANNED_SKIPPED.members().forEach((name, value) -> totals.put(name + " left out", value));
        return totals;
    }

    @Override
    public Map<String, Long> getOutcomes() {
        return counts();
    }

    @Override
    public long getAsked() {
        return ASKED.get();
    }

    @Override
    public long getAskingMillis() {
        return TimeUnit.NANOSECONDS.toMillis(ASKING.get());
    }

    @Override
    public Map<String, Long> getPlanned() {
        return PLANNED.members();
    }

    @Override
    public Map<String, Long> getPlannedSkipped() {
        return PLANNED_SKIPPED.members();
    }

    @Override
    public Map<String, Long> getObserved() {
        return OBSERVED.members();
    }

    @Override
    public Map<String, Long> getObservedSkipped() {
        return OBSERVED_SKIPPED.members();
    }
}
