package org.paimonindex;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.zip.ZipEntry;
import java.util.zip.ZipOutputStream;
import org.apache.paimon.Snapshot;
import org.apache.paimon.fs.FileIO;
import org.apache.paimon.fs.Path;
import org.apache.paimon.fs.SeekableInputStream;
import org.apache.paimon.manifest.ManifestFileMeta;
import org.apache.paimon.manifest.ManifestList;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.utils.IOUtils;
import org.apache.paimon.utils.JsonSerdeUtil;

/** An answer of the service, made of a table's own manifests; a test may change what it says. */
final class Archive {

    final Map<String, Object> answer = new LinkedHashMap<>();
    final Map<String, byte[]> files = new LinkedHashMap<>();

    /** The answer that keeps the files of some commits of a snapshot, the first of which is 0. */
    @SuppressWarnings("unchecked")
    static Archive of(FileStoreTable table, Snapshot snapshot, int... commits) throws IOException {
        Archive archive = new Archive();
        ManifestList lists = table.store().manifestListFactory().create();
        List<ManifestFileMeta> all = lists.readDataManifests(snapshot);
        List<ManifestFileMeta> kept = new ArrayList<>();
        for (int commit : commits) {
            ManifestFileMeta manifest = all.get(commit);
            kept.add(manifest);
            archive.take(table, manifest.fileName(), false);
        }
        String base = lists.write(kept).getLeft();
        String delta = lists.write(List.of()).getLeft();
        Map<String, Object> document = JsonSerdeUtil.fromJson(snapshot.toJson(), Map.class);
        document.put("baseManifestList", base);
        document.put("baseManifestListSize", archive.take(table, base, true));
        document.put("deltaManifestList", delta);
        document.put("deltaManifestListSize", archive.take(table, delta, true));
        archive.answer.put("snapshot_id", snapshot.id());
        archive.answer.put("schema_id", snapshot.schemaId());
        archive.answer.put("options_schema_id", table.schema().id());
        archive.answer.put("name", UUID.randomUUID().toString());
        archive.answer.put("document", document);
        archive.answer.put("delta_manifest_list", snapshot.deltaManifestList());
        Map<String, Object> totals = Map.of("files_total", 3, "rows_total", 6, "bytes_total", 10_000);
        archive.answer.put("summary", totals);
        archive.answer.put("spared", Map.of("files", 1, "rows", 2, "bytes", 700));
        return archive;
    }

    private int take(FileStoreTable table, String name, boolean isOurs) throws IOException {
        FileIO storage = table.fileIO();
        Path path = new Path(table.location(), "manifest/" + name);
        try (SeekableInputStream stream = storage.newInputStream(path)) {
            files.put("manifest/" + name, IOUtils.readFully(stream, false));
        }
        if (isOurs) {
            storage.delete(path, false);
        }
        return files.get("manifest/" + name).length;
    }

    byte[] bytes() throws IOException {
        ByteArrayOutputStream written = new ByteArrayOutputStream();
        try (ZipOutputStream archive = new ZipOutputStream(written)) {
            archive.putNextEntry(new ZipEntry("answer.json"));
            archive.write(JsonSerdeUtil.toFlatJson(answer).getBytes());
            for (Map.Entry<String, byte[]> file : files.entrySet()) {
                archive.putNextEntry(new ZipEntry(file.getKey()));
                archive.write(file.getValue());
            }
        }
        return written.toByteArray();
    }
}
