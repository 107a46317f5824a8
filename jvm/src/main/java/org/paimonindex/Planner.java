package org.paimonindex;

import java.io.Serializable;
import java.nio.channels.ClosedByInterruptException;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import org.apache.paimon.Snapshot;
import org.apache.paimon.fs.Path;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * Plans scans by the service's answer, and by the engine alone where there is none that fits.
 *
 * <p>The service names the files that a query reads as a snapshot. The engine's own code then plans that
 * snapshot: merging, deletion vectors, buckets and splits are the engine's, in each of its releases.
 */
final class Planner implements Serializable {

    private static final long serialVersionUID = 1L;

    private final ServiceOptions.Mode mode;
    /** Without a token: a job's graph has them. */
    private final HashMap<String, String> options;
    /** Made anew where the table was sent to plan, as to Flink's job manager. */
    private transient Service service;

    Planner(ServiceOptions options) {
        this.mode = options.mode;
        this.options = options.withoutToken();
        this.service = new Service(options);
    }

    private synchronized Service service() {
        if (service == null) {
            service = new Service(ServiceOptions.of(Options.fromMap(options)));
        }
        return service;
    }

    /** Whether Spark is offered to collect keys: to observe changes nothing, and that would change its plans. */
    boolean takesRuntimeKeys() {
        return mode == ServiceOptions.Mode.PLAN;
    }

    TableScan.Plan plan(RecordedScan scan) {
        Answered answered = answered(scan);
        if (answered == null) {
            return scan.planOn(scan.table());
        }
        if (mode == ServiceOptions.Mode.PLAN) {
            Unneeded.run(() -> Scans.planned(scan, answered.plan, answered.snapshot));
            return answered.plan;
        }
        TableScan.Plan plan = scan.planOn(scan.table());
        Unneeded.run(() -> Scans.observed(scan, plan, answered.plan));
        return plan;
    }

    /** The service's plan, and the answer that it was made of. */
    private static final class Answered {

        final TableScan.Plan plan;
        final PrunedSnapshot snapshot;

        Answered(TableScan.Plan plan, PrunedSnapshot snapshot) {
            this.plan = plan;
            this.snapshot = snapshot;
        }
    }

    /** Null where there is no answer that fits. */
    private Answered answered(RecordedScan scan) {
        try {
            PrunedSnapshot snapshot = fitting(scan, Question.of(scan, service().budgetMillis()));
            return new Answered(scan.planOn(snapshotTable(scan.table(), snapshot)), snapshot);
        } catch (NotAskedException e) {
            left(scan, e);
        } catch (LinkageError e) {
            left(scan, NotAskedException.of(e));
        } catch (Exception | StackOverflowError e) {
            // The engine throws exceptions that nobody has declared, and goes as deep as an answer makes it.
            if (isInterrupt(e)) {
                // The engine's own plan sees it, and ends as it does without us.
                Thread.currentThread().interrupt();
            } else {
                left(scan, new NotAskedException(Outcome.REFUSED, "the answer cannot be planned: " + e));
            }
        }
        return null;
    }

    private static void left(RecordedScan scan, NotAskedException reason) {
        scan.note().left(reason);
        Unneeded.run(() -> Scans.left(scan.planned(), reason));
    }

    private static boolean isInterrupt(Throwable thrown) {
        for (Throwable cause = thrown; cause != null; cause = cause.getCause()) {
            if (cause instanceof InterruptedException || cause instanceof ClosedByInterruptException) {
                return true;
            }
        }
        return false;
    }

    /** The service's answer, about the version that is read. */
    private PrunedSnapshot fitting(RecordedScan scan, String question) throws NotAskedException, InterruptedException {
        FileStoreTable table = scan.table();
        Snapshot[] read = new Snapshot[1];
        PrunedSnapshot answer =
                service().prunedSnapshot(
                        scan.planned(), question, () -> read[0] = Releases.snapshot(table));
        if (answer.schemaId() != table.schema().id()) {
            throw new NotAskedException(
                    Outcome.OTHER_VERSION,
                    String.format(
                            "schema %d is asked about, and %d is read", answer.schemaId(), table.schema().id()));
        }
        // An older version is read under the options that the table had when the session loaded it.
        if (Question.namesVersion(table.options()) && answer.optionsSchemaId() != scan.planned().schemaId) {
            throw new NotAskedException(
                    Outcome.OTHER_VERSION,
                    String.format(
                            "options of schema %d are asked about, and those of %d are read",
                            answer.optionsSchemaId(), scan.planned().schemaId));
        }
        checkSameVersion(table, read[0], answer);
        if (answer.isLeftToTheEngine()) {
            throw new NotAskedException(Outcome.NOT_SELECTIVE, answer.warnings());
        }
        return answer;
    }

    /** The table at a snapshot that has the answer's files alone. */
    private static FileStoreTable snapshotTable(FileStoreTable table, PrunedSnapshot answer) {
        TableSchema schema = table.schema();
        Path location = table.location();
        String tag = IndexCatalogFactory.IDENTIFIER + "-" + answer.name();
        Map<Path, byte[]> files = new HashMap<>();
        answer.files.forEach((name, content) -> files.put(new Path(location, name), content));
        files.put(new Path(location, "tag/tag-" + tag), answer.document());
        // Reading it again would be a call to storage.
        files.put(
                new Path(location, "schema/schema-" + schema.id()),
                JsonSerdeUtil.toJson(schema).getBytes(StandardCharsets.UTF_8));
        return FileStoreTableFactory.createWithoutFallbackBranch(
                new SnapshotFileIO(table.fileIO(), files),
                location,
                schema.copy(Question.withoutVersion(schema.options())),
                Options.fromMap(Collections.singletonMap("scan.tag-name", tag)),
                table.catalogEnvironment());
    }

    /**
     * Compares the answer's snapshot with the one that the engine would read: the service may read a copy of the
     * warehouse that is behind, or another one. The name of a manifest list is that of no other table.
     *
     * @param read what the engine would read; null for a table that was never written to
     */
    private static void checkSameVersion(FileStoreTable table, Snapshot read, PrunedSnapshot answer)
            throws NotAskedException {
        Long id = answer.snapshotId();
        if (id == null && read == null) {
            throw new NotAskedException(Outcome.NOT_SELECTIVE, "there are no files");
        }
        Snapshot own = read;
        if (id != null && read != null && id > read.id() && !Question.namesVersion(table.options())) {
            // Committed since.
            own = table.snapshotManager().snapshot(id);
        }
        boolean isSame =
                id != null
                        && own != null
                        && id == own.id()
                        && own.deltaManifestList().equals(answer.deltaManifestList());
        if (!isSame) {
            throw new NotAskedException(
                    Outcome.OTHER_VERSION,
                    String.format(
                            "the service read snapshot %d, and the table at %s has %s. If this is seen often, "
                                    + "paimon-index.warehouse is a copy or another warehouse",
                            id, table.location(), own == null ? "none" : "another snapshot " + own.id()));
        }
    }
}
