package org.paimonindex;

import java.io.ByteArrayInputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.zip.ZipEntry;
import java.util.zip.ZipInputStream;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * A snapshot that names only the files that a query reads: an archive with {@code answer.json} and the
 * manifests, below {@code manifest/}. Each of its files has a checksum, which reading compares.
 */
final class PrunedSnapshot {

    static final String MEDIA_TYPE = "application/zip";

    private static final String ANSWER = "answer.json";
    private static final Pattern METADATA = Pattern.compile("manifest/manifest-[A-Za-z0-9.-]+");

    /** Files by their place below the table: manifests and manifest lists. */
    final Map<String, byte[]> files;

    private final Map<?, ?> answer;

    private PrunedSnapshot(Map<?, ?> answer, Map<String, byte[]> files) {
        this.answer = answer;
        this.files = files;
    }

    /**
     * Reads an answer.
     *
     * @throws NotAskedException the bytes are not one
     */
    static PrunedSnapshot read(byte[] content) throws NotAskedException {
        Map<String, byte[]> files = new HashMap<>();
        try (ZipInputStream archive = new ZipInputStream(new ByteArrayInputStream(content))) {
            int left = Exchange.MOST_BYTES;
            for (ZipEntry entry = archive.getNextEntry(); entry != null; entry = archive.getNextEntry()) {
                String name = entry.getName();
                if (!name.equals(ANSWER) && !METADATA.matcher(name).matches()) {
                    throw new IOException("its entry " + name + " is no manifest");
                }
                byte[] file = Exchange.read(archive, left);
                left -= file.length;
                if (left == 0) {
                    throw new IOException("it has more than " + Exchange.MOST_BYTES + " bytes");
                }
                files.put(name, file);
            }
            byte[] answer = files.remove(ANSWER);
            if (answer == null) {
                throw new IOException("there is no " + ANSWER + " in " + content.length + " bytes");
            }
            return new PrunedSnapshot(BoundedJson.object(answer), files);
        } catch (IOException | RuntimeException e) {
            throw new NotAskedException(Outcome.REFUSED, "the answer is no pruned snapshot: " + e);
        }
    }

    /** The planned snapshot's number; null for a table that was never written to. */
    Long snapshotId() {
        Number id = (Number) answer.get("snapshot_id");
        return id == null ? null : id.longValue();
    }

    long schemaId() {
        return ((Number) answer.get("schema_id")).longValue();
    }

    /** Number of the schema whose options hold; -1 of a service that takes those that a snapshot had. */
    long optionsSchemaId() {
        Number id = (Number) answer.get("options_schema_id");
        return id == null ? -1 : id.longValue();
    }

    /** Of the planned snapshot: a name that no other table has. */
    String deltaManifestList() {
        return (String) answer.get("delta_manifest_list");
    }

    /** Whether the service left naming files to the engine, since the plan keeps too many. */
    boolean isLeftToTheEngine() {
        return answer.get("document") == null;
    }

    /** Number of files of the planned version. */
    long filesTotal() {
        return ((Number) ((Map<?, ?>) answer.get("summary")).get("files_total")).longValue();
    }

    /** What the engine would not have left out by itself: {@code files}, {@code rows} or {@code bytes}. */
    long spared(String member) {
        Map<?, ?> spared = (Map<?, ?>) answer.get("spared");
        return spared == null ? 0 : ((Number) spared.get(member)).longValue();
    }

    /** Why tests are undecided, and other warnings of the plan. */
    String warnings() {
        List<?> warnings = (List<?>) answer.get("warnings");
        return warnings == null ? "" : warnings.stream().map(Object::toString).collect(Collectors.joining("; "));
    }

    /** Part of the names of all files. */
    String name() {
        return answer.get("name").toString();
    }

    /** The snapshot's file. */
    byte[] document() {
        return JsonSerdeUtil.toJson(answer.get("document")).getBytes(StandardCharsets.UTF_8);
    }
}
