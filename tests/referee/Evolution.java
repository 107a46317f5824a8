import java.io.File;
import java.nio.file.Files;
import java.util.*;
import org.apache.paimon.append.dataevolution.*;
import org.apache.paimon.data.*;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.globalindex.*;
import org.apache.paimon.globalindex.btree.BTreeGlobalIndexBuilder;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.*;
import org.apache.paimon.manifest.*;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.*;
import org.apache.paimon.table.*;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.table.source.*;
import org.apache.paimon.types.*;
import org.apache.paimon.utils.Range;

/** What release 1.4 adds to tables with data evolution: global indexes, updates of columns, compactions that keep row ids. */
public class Evolution {
  static void act(JsonNode n, ObjectNode answer) throws Exception {
    FileStoreTable table = Engine.table(n);
    if (!table.coreOptions().dataEvolutionEnabled()) throw new IllegalArgumentException("has no data evolution");
    switch (n.get("do").asText()) {
      case "index": if (n.get("kind").asText().equals("btree")) btree(table, n.get("column").asText()); else bitmap(table, n.get("column").asText()); break;
      case "unindex": commit(table, removals(table, n.get("column").asText())); break;
      case "update": update(table, n); break;
      case "compact": compact(table); break;
      default: throw new IllegalArgumentException(n.toString());
    }
  }

  static void btree(FileStoreTable table, String column) throws Exception {
    BTreeGlobalIndexBuilder builder = new BTreeGlobalIndexBuilder(table).withIndexField(column);
    File directory = Files.createTempDirectory(new File(Engine.SCRATCH).toPath(), "index").toFile();
    List<CommitMessage> messages = new ArrayList<>();
    for (DataSplit split : BTreeGlobalIndexBuilder.splitByContiguousRowRange(builder.scan().orElseThrow().getRight()))
      messages.addAll(builder.build(split, IOManager.create(directory.getPath())));
    commit(table, messages);
  }

  /** An index of a table without partitions, whose rows have the ids from 0 on. */
  static void bitmap(FileStoreTable table, String column) throws Exception {
    if (!table.partitionKeys().isEmpty()) throw new IllegalArgumentException("has partitions");
    DataField field = table.rowType().getField(column);
    GlobalIndexSingletonWriter writer =
        (GlobalIndexSingletonWriter) GlobalIndexBuilderUtils.createIndexWriter(table, "bitmap", field, table.coreOptions().toConfiguration());
    InternalRow.FieldGetter getter = InternalRow.createFieldGetter(field.type(), 0);
    SortedMap<Long, Object> values = new TreeMap<>();
    ReadBuilder reading = table.newReadBuilder().withReadType(SpecialFields.rowTypeWithRowId(table.rowType()).project(List.of(column, "_ROW_ID")));
    try (RecordReader<InternalRow> reader = reading.newRead().createReader(reading.newScan().plan())) {
      reader.forEachRemaining(row -> values.put(row.getLong(1), copied(getter.getFieldOrNull(row))));
    }
    if (values.isEmpty() || values.firstKey() != 0 || values.lastKey() != values.size() - 1) throw new IllegalArgumentException("row ids have gaps");
    values.values().forEach(writer::write);
    List<IndexFileMeta> files = GlobalIndexBuilderUtils.toIndexFileMetas(table.fileIO(), table.store().pathFactory().globalIndexFileFactory(),
        table.coreOptions(), new Range(0, values.size() - 1), field.id(), "bitmap", writer.finish());
    commit(table, List.of(message(BinaryRow.EMPTY_ROW, DataIncrement.indexIncrement(files))));
  }

  static Object copied(Object value) {
    return value instanceof BinaryString ? ((BinaryString) value).copy() : value;
  }

  /** Writes a column of all rows of some files anew, as the connector's MERGE INTO does, and honours what it asks of indexes. */
  static void update(FileStoreTable table, JsonNode n) throws Exception {
    String column = n.get("column").asText();
    List<CommitMessage> removals = removals(table, column);
    String action = table.options().getOrDefault("global-index.column-update-action", "THROW_ERROR").trim().toUpperCase();
    if (!removals.isEmpty() && action.equals("THROW_ERROR")) throw new IllegalStateException("the column is indexed");
    SortedMap<Long, ManifestEntry> first = new TreeMap<>();
    for (ManifestEntry entry : table.store().newScan().plan().files()) first.putIfAbsent(entry.file().nonNullFirstRowId(), entry);
    if (!table.partitionKeys().isEmpty() || first.isEmpty()) throw new IllegalArgumentException("has partitions or no rows");
    long start = new ArrayList<>(first.keySet()).get(n.get("at").asInt() % first.size());
    List<String> values = new ArrayList<>();
    n.get("values").forEach(each -> values.add(each.isNull() ? null : each.asText()));
    RowType type = table.rowType().project(List.of(column));
    try (BatchTableWrite write = table.newBatchWriteBuilder().newWrite()) {
      write.withIOManager(IOManager.create(Engine.SCRATCH));
      write.withWriteType(type);
      for (int i = 0; i < first.get(start).file().rowCount(); i++)
        write.write(GenericRow.of(Engine.value(TextNode.valueOf(values.get(i % values.size())), type.getTypeAt(0))));
      List<CommitMessage> messages = new ArrayList<>(write.prepareCommit());
      for (CommitMessage message : messages) ((CommitMessageImpl) message).newFilesIncrement().newFiles().replaceAll(file -> file.assignFirstRowId(start));
      if (action.equals("DROP_PARTITION_INDEX")) messages.addAll(removals);
      commit(table, messages);
    }
  }

  static void compact(FileStoreTable table) throws Exception {
    table = table.copy(Map.of("compaction.min.file-num", "2"));
    DataEvolutionCompactCoordinator coordinator = new DataEvolutionCompactCoordinator(table, false, false);
    List<CommitMessage> messages = new ArrayList<>();
    try {
      while (true) for (DataEvolutionCompactTask task : coordinator.plan()) messages.add(task.doCompact(table, "referee"));
    } catch (EndOfScanException end) {
      commit(table, messages);
    }
  }

  static List<CommitMessage> removals(FileStoreTable table, String column) {
    int id = table.rowType().getField(column).id();
    Map<BinaryRow, List<IndexFileMeta>> files = new LinkedHashMap<>();
    for (IndexManifestEntry entry : table.store().newIndexFileHandler().scanEntries())
      if (entry.indexFile().globalIndexMeta() != null && entry.indexFile().globalIndexMeta().indexFieldId() == id)
        files.computeIfAbsent(entry.partition(), each -> new ArrayList<>()).add(entry.indexFile());
    List<CommitMessage> messages = new ArrayList<>();
    files.forEach((partition, some) -> messages.add(message(partition, DataIncrement.deleteIndexIncrement(some))));
    return messages;
  }

  static CommitMessage message(BinaryRow partition, DataIncrement increment) {
    return new CommitMessageImpl(partition, 0, null, increment, CompactIncrement.emptyIncrement());
  }

  static void commit(FileStoreTable table, List<CommitMessage> messages) throws Exception {
    try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) { commit.commit(messages); }
  }

  public static void main(String[] args) throws Exception {
    Engine.serve(args[0], Evolution::act);
  }
}
