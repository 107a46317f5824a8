package org.paimonindex;

import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.paimon.Snapshot;
import org.apache.paimon.fs.Path;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.options.Options;
import org.apache.paimon.schema.TableSchema;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.FileStoreTableFactory;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Plans scans by the service's answer, and by the engine alone where there is none that fits.
 *
 * <p>The service names the files that a query reads as a snapshot. The engine's own code then plans that
 * snapshot: merging, deletion vectors, buckets and splits are the engine's, in each of its releases.
 */
final class Planner {

    private static final Logger LOG = LoggerFactory.getLogger(Planner.class);

    private final Service service;
    private final ServiceOptions.Mode mode;
    /** Tables, by their location, that the service is known to mean as well. */
    private final Set<Path> sameTables = ConcurrentHashMap.newKeySet();

    Planner(Service service, ServiceOptions.Mode mode) {
        this.service = service;
        this.mode = mode;
    }

    TableScan.Plan plan(RecordedScan scan) {
        FileStoreTable table = scan.table();
        try {
            String question = Question.of(scan, service.timeout());
            TableScan.Plan answered = scan.on(snapshotTable(table, question, scan.planned())).plan();
            if (mode == ServiceOptions.Mode.OBSERVE) {
                return observe(scan, answered);
            }
            Scans.count(Outcome.PLANNED);
            return answered;
        } catch (NotAskedException e) {
            Scans.count(e.outcome);
            Scans.explain(LOG, scan.planned(), e.outcome, e.getMessage());
        } catch (InterruptedException e) {
            // The engine's own plan sees it, and ends as it does without us.
            Thread.currentThread().interrupt();
        } catch (RuntimeException e) {
            Scans.count(Outcome.REFUSED);
            Scans.explain(LOG, scan.planned(), Outcome.REFUSED, "the answer cannot be planned: " + e);
        }
        return scan.on(table).plan();
    }

    /** The table at a snapshot that has the answer's files alone. */
    private FileStoreTable snapshotTable(FileStoreTable table, String question, PlannedTable planned)
            throws NotAskedException, InterruptedException {
        PrunedSnapshot answer = service.prunedSnapshot(planned, question);
        TableSchema schema = table.schema();
        if (answer.schemaId() != schema.id()) {
            throw new NotAskedException(
                    Outcome.OTHER_VERSION,
                    String.format("schema %d is asked about, and %d is read", answer.schemaId(), schema.id()));
        }
        if (answer.isLeftToTheEngine()) {
            throw new NotAskedException(Outcome.NOT_SELECTIVE, "most files are kept");
        }
        checkSameTable(table, answer);
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
                Options.fromMap(Map.of("scan.tag-name", tag)),
                table.catalogEnvironment());
    }

    /**
     * Compares the answer's snapshot with the table's own, once for each table: the service may read a copy of
     * the warehouse, or another one.
     */
    private void checkSameTable(FileStoreTable table, PrunedSnapshot answer) throws NotAskedException {
        Long id = answer.snapshotId();
        if (id == null) {
            throw new NotAskedException(Outcome.OTHER_VERSION, "the service knows no snapshot of the table");
        }
        if (sameTables.contains(table.location())) {
            return;
        }
        boolean isMeant =
                Question.namesVersion(table.options())
                        || id.equals(table.snapshotManager().latestSnapshotId());
        Snapshot own = isMeant ? table.snapshotManager().snapshot(id) : null;
        if (own == null || !own.deltaManifestList().equals(answer.deltaManifestList())) {
            throw new NotAskedException(
                    Outcome.OTHER_VERSION,
                    String.format(
                            "snapshot %d of the service is not the table's own at %s: check paimon-index.warehouse",
                            id, table.location()));
        }
        sameTables.add(table.location());
    }

    private TableScan.Plan observe(RecordedScan scan, TableScan.Plan answered) {
        TableScan.Plan plan = scan.on(scan.table()).plan();
        Set<String> engine = files(plan);
        Set<String> service = files(answered);
        LOG.info(
                "{}: the engine reads {} files, paimon-index {} of them and {} others",
                scan.planned(),
                engine.size(),
                service.stream().filter(engine::contains).count(),
                service.stream().filter(name -> !engine.contains(name)).count());
        Scans.count(Outcome.OBSERVED);
        return plan;
    }

    private static Set<String> files(TableScan.Plan plan) {
        Set<String> names = new HashSet<>();
        for (Split split : plan.splits()) {
            if (split instanceof DataSplit) {
                for (DataFileMeta file : ((DataSplit) split).dataFiles()) {
                    names.add(file.fileName());
                }
            }
        }
        return names;
    }
}
