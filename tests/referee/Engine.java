import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.util.*;
import org.apache.paimon.CoreOptions;
import org.apache.paimon.Snapshot;
import org.apache.paimon.append.AppendCompactTask;
import org.apache.paimon.catalog.*;
import org.apache.paimon.data.*;
import org.apache.paimon.deletionvectors.*;
import org.apache.paimon.deletionvectors.append.BaseAppendDeleteFileMaintainer;
import org.apache.paimon.disk.IOManager;
import org.apache.paimon.fs.Path;
import org.apache.paimon.index.IndexFileMeta;
import org.apache.paimon.io.*;
import org.apache.paimon.manifest.*;
import org.apache.paimon.operation.BaseAppendFileStoreWrite;
import org.apache.paimon.options.*;
import org.apache.paimon.reader.*;
import org.apache.paimon.schema.*;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.*;
import org.apache.paimon.shade.jackson2.com.fasterxml.jackson.databind.node.*;
import org.apache.paimon.table.*;
import org.apache.paimon.table.sink.*;
import org.apache.paimon.table.source.*;
import org.apache.paimon.types.*;
import org.apache.paimon.utils.*;

/** Does what a line of JSON says through the engine's own API, and answers with a line: java Engine WAREHOUSE. */
public class Engine {
  static final ObjectMapper JSON = new ObjectMapper();
  static final String SCRATCH = System.getProperty("java.io.tmpdir");
  static Catalog catalog;

  static FileStoreTable table(JsonNode n) throws Exception {
    FileStoreTable table = (FileStoreTable) catalog.getTable(name(n));
    return n.has("options") ? table.copy(map(n.get("options"))) : table;
  }

  static Identifier name(JsonNode n) {
    String table = n.get("table").asText();
    return n.hasNonNull("branch") ? new Identifier("referee", table, n.get("branch").asText()) : Identifier.create("referee", table);
  }

  static Map<String, String> map(JsonNode n) {
    Map<String, String> found = new LinkedHashMap<>();
    if (n != null) n.fields().forEachRemaining(each -> found.put(each.getKey(), each.getValue().asText()));
    return found;
  }

  static List<String> list(JsonNode n) {
    List<String> found = new ArrayList<>();
    if (n != null) n.forEach(each -> found.add(each.asText()));
    return found;
  }

  static DataType type(JsonNode n) {
    return DataTypeJsonParser.parseDataType(n);
  }

  static Object value(JsonNode written, DataType type) {
    if (written == null || written.isNull()) return null;
    String text = written.asText();
    switch (type.getTypeRoot()) {
      case BINARY: case VARBINARY: return HexFormat.of().parseHex(text);
      case CHAR: case VARCHAR: return BinaryString.fromString(text);
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE: return Timestamp.fromInstant(Instant.parse(text));
      default: return TypeUtils.castFromString(text, type);
    }
  }

  static String shown(InternalRow row, int at, DataType type) {
    Object value = InternalRow.createFieldGetter(type, at).getFieldOrNull(row);
    if (value == null) return null;
    switch (type.getTypeRoot()) {
      case BINARY: case VARBINARY: return HexFormat.of().formatHex((byte[]) value);
      case TIMESTAMP_WITH_LOCAL_TIME_ZONE: return ((Timestamp) value).toInstant().toString();
      default: return value.toString();
    }
  }

  static void create(JsonNode n) throws Exception {
    Schema.Builder schema = Schema.newBuilder();
    for (JsonNode column : n.get("columns")) schema.column(column.get(0).asText(), type(column.get(1)));
    schema.primaryKey(list(n.get("keys"))).partitionKeys(list(n.get("partitions"))).options(map(n.get("options")));
    catalog.createTable(name(n), schema.build(), false);
  }

  /** Rows are objects by column; what has no such column is left out, and what the row lacks is null. */
  static void write(JsonNode n) throws Exception {
    FileStoreTable table = table(n);
    BatchWriteBuilder builder = table.newBatchWriteBuilder();
    if (n.path("overwrite").asBoolean()) builder.withOverwrite();
    RowType type = table.rowType(), all = type;
    boolean ids = n.path("row_ids").asBoolean() && table.coreOptions().rowTrackingEnabled();
    if (ids) type = SpecialFields.rowTypeWithRowTracking(type);
    if (n.has("only") && table.coreOptions().dataEvolutionEnabled()) {
      List<String> some = list(n.get("only"));
      some.retainAll(type.getFieldNames());
      if (!some.isEmpty()) type = type.project(some);
    }
    boolean dynamic = table.bucketMode() == BucketMode.HASH_DYNAMIC;
    try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
      write.withIOManager(IOManager.create(SCRATCH));
      if (type != all) write.withWriteType(type);
      for (JsonNode written : n.get("rows")) {
        GenericRow row = new GenericRow(type.getFieldCount());
        if (written.hasNonNull("__kind") && !table.primaryKeys().isEmpty()) row.setRowKind(RowKind.fromShortString(written.get("__kind").asText()));
        for (int i = 0; i < type.getFieldCount(); i++) row.setField(i, value(written.get(type.getFieldNames().get(i)), type.getTypeAt(i)));
        if (dynamic) write.write(row, Math.floorMod(written.get(table.primaryKeys().get(table.primaryKeys().size() - 1)).asText().hashCode(), 2)); else write.write(row);
      }
      commit.commit(write.prepareCommit());
    }
  }

  static Map<BinaryRow, Map<Integer, List<DataFileMeta>>> files(FileStoreTable table) {
    Map<BinaryRow, Map<Integer, List<DataFileMeta>>> found = new LinkedHashMap<>();
    for (ManifestEntry entry : table.store().newScan().plan().files())
      found.computeIfAbsent(entry.partition().copy(), each -> new TreeMap<>()).computeIfAbsent(entry.bucket(), each -> new ArrayList<>()).add(entry.file());
    return found;
  }

  static void compact(JsonNode n) throws Exception {
    FileStoreTable table = table(n).copy(Collections.singletonMap("write-only", "false"));
    BatchWriteBuilder builder = table.newBatchWriteBuilder();
    List<CommitMessage> messages = new ArrayList<>();
    try (BatchTableWrite write = builder.newWrite(); BatchTableCommit commit = builder.newCommit()) {
      write.withIOManager(IOManager.create(SCRATCH));
      for (Map.Entry<BinaryRow, Map<Integer, List<DataFileMeta>>> part : files(table).entrySet())
        for (Map.Entry<Integer, List<DataFileMeta>> bucket : part.getValue().entrySet())
          if (table.bucketMode() == BucketMode.BUCKET_UNAWARE) {
            if (bucket.getValue().size() < 2) continue;
            BaseAppendFileStoreWrite appends = (BaseAppendFileStoreWrite) table.store().newWrite("referee");
            messages.add(new AppendCompactTask(part.getKey(), bucket.getValue()).doCompact(table, appends));
            appends.close();
          } else write.compact(part.getKey(), bucket.getKey(), true);
      messages.addAll(write.prepareCommit());
      commit.commit(messages);
    }
  }

  /** Deletes every n-th row of files that are appended to, by vectors. */
  static void delete(JsonNode n) throws Exception {
    FileStoreTable table = table(n);
    if (!table.primaryKeys().isEmpty() || !table.coreOptions().deletionVectorsEnabled()) throw new IllegalArgumentException("has no vectors");
    Snapshot latest = table.snapshotManager().latestSnapshot();
    boolean unaware = table.bucketMode() == BucketMode.BUCKET_UNAWARE;
    List<CommitMessage> messages = new ArrayList<>();
    for (Map.Entry<BinaryRow, Map<Integer, List<DataFileMeta>>> part : files(table).entrySet())
      for (Map.Entry<Integer, List<DataFileMeta>> bucket : part.getValue().entrySet()) {
        BaseAppendDeleteFileMaintainer vectors = unaware
            ? BaseAppendDeleteFileMaintainer.forUnawareAppend(table.store().newIndexFileHandler(), latest, part.getKey())
            : BaseAppendDeleteFileMaintainer.forBucketedAppend(table.store().newIndexFileHandler(), latest, part.getKey(), bucket.getKey());
        for (DataFileMeta file : bucket.getValue()) {
          DeletionVector vector = table.coreOptions().deletionVectorBitmap64() ? new Bitmap64DeletionVector() : new BitmapDeletionVector();
          for (long row = n.get("first").asLong(); row < file.rowCount(); row += n.get("step").asLong()) vector.delete(row);
          if (!vector.isEmpty()) vectors.notifyNewDeletionVector(file.fileName(), vector);
        }
        List<IndexFileMeta> added = new ArrayList<>(), removed = new ArrayList<>();
        for (IndexManifestEntry entry : vectors.persist()) (entry.kind() == FileKind.ADD ? added : removed).add(entry.indexFile());
        List<DataFileMeta> none = List.of();
        messages.add(new CommitMessageImpl(vectors.getPartition(), vectors.getBucket(), table.coreOptions().bucket(),
            new DataIncrement(none, none, none, added, removed), CompactIncrement.emptyIncrement()));
      }
    try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) { commit.commit(messages); }
  }

  static void alter(JsonNode n) throws Exception {
    String[] column = {n.path("column").asText()};
    SchemaChange change;
    switch (n.get("change").asText()) {
      case "add": change = SchemaChange.addColumn(column, type(n.get("type")), null, n.path("first").asBoolean() ? SchemaChange.Move.first(column[0]) : null); break;
      case "drop": change = SchemaChange.dropColumn(column); break;
      case "rename": change = SchemaChange.renameColumn(column, n.get("to").asText()); break;
      case "retype": change = SchemaChange.updateColumnType(column, type(n.get("type")), true); break;
      case "nullable": change = SchemaChange.updateColumnNullability(column, n.get("value").asBoolean()); break;
      case "first": change = SchemaChange.updateColumnPosition(SchemaChange.Move.first(column[0])); break;
      case "default": change = SchemaChange.updateColumnDefaultValue(column, n.get("value").asText()); break;
      case "unset": change = SchemaChange.removeOption(n.get("key").asText()); break;
      default: change = SchemaChange.setOption(n.get("key").asText(), n.get("value").asText());
    }
    catalog.alterTable(name(n), List.of(change), false);
  }

  /** Merges all manifests, whoever wrote them, into one. */
  static void merge(JsonNode n) throws Exception {
    FileStoreTable table = table(n);
    try (BatchTableCommit commit = table.newBatchWriteBuilder().newCommit()) { commit.compactManifests(); }
    Snapshot latest = table(n).snapshotManager().latestSnapshot();
    int manifests = table.store().manifestListFactory().create().readDataManifests(latest).size();
    if (manifests != 1) throw new IllegalStateException(manifests + " manifests");
  }

  static DataSplit split(DataSplit of, List<DataFileMeta> files, boolean raw) {
    List<DeletionFile> vectors = new ArrayList<>();
    for (DataFileMeta file : files) vectors.add(of.deletionFiles().map(each -> each.get(of.dataFiles().indexOf(file))).orElse(null));
    DataSplit.Builder split = DataSplit.builder().withSnapshot(of.snapshotId()).withPartition(of.partition()).withBucket(of.bucket()).withBucketPath(of.bucketPath())
        .withTotalBuckets(of.totalBuckets()).withDataFiles(files).rawConvertible(raw);
    if (of.deletionFiles().isPresent()) split.withDataDeletionFiles(vectors);
    return split.build();
  }

  /**
   * All rows at a selector, with nothing pushed down: values, then file and position where a file is read straight.
   * "straight" and "merged" name the files to read in these ways alone.
   */
  static void read(JsonNode n, ObjectNode answer) throws Exception {
    FileStoreTable table = table(n);
    ReadBuilder builder = table.newReadBuilder();
    RowType type = table.rowType();
    if (table.coreOptions().rowTrackingEnabled()) { type = SpecialFields.rowTypeWithRowTracking(type); builder.withReadType(type); }
    boolean evolves = table.coreOptions().dataEvolutionEnabled();
    List<String> straight = list(n.get("straight")), merged = list(n.get("merged"));
    ArrayNode rows = answer.putArray("rows"), files = answer.putArray("files"), columns = answer.putArray("columns");
    for (DataField field : type.getFields()) columns.addArray().add(field.name()).add(field.type().asSQLString());
    answer.put("schema", table.schema().id());
    List<Split> splits = builder.newScan().plan().splits();
    List<Path> links = link(table, splits);
    try {
      for (Split each : splits) {
        DataSplit split = (DataSplit) each;
        List<DataSplit> parts = new ArrayList<>();
        List<DataFileMeta> together = new ArrayList<>();
        for (DataFileMeta file : split.dataFiles()) {
          files.add(file.fileName());
          boolean alone = split.rawConvertible() && !(evolves && split.dataFiles().size() > 1);
          if (n.has("straight") ? straight.contains(file.fileName()) : alone) parts.add(split(split, List.of(file), true));
          else if (n.has("straight") ? merged.contains(file.fileName()) : true) together.add(file);
        }
        if (!together.isEmpty()) parts.add(split(split, together, split.rawConvertible()));
        for (DataSplit part : parts) read(builder, part, type, rows, part.dataFiles().size() == 1 && part.rawConvertible());
      }
    } finally {
      for (Path link : links) table.fileIO().delete(link, true);
    }
  }

  /**
   * Puts files that pypaimon has written to a directory of its own spelling where the engine looks for them, and returns what
   * to delete once they are read: the service must not find them there.
   */
  static List<Path> link(FileStoreTable table, List<Split> splits) throws Exception {
    java.nio.file.Path root = java.nio.file.Path.of(table.location().toUri().getPath());
    Map<String, java.nio.file.Path> written = new HashMap<>();
    List<Path> made = new ArrayList<>();
    for (Split each : splits) {
      DataSplit split = (DataSplit) each;
      java.nio.file.Path bucket = java.nio.file.Path.of(new Path(split.bucketPath()).toUri().getPath());
      for (DataFileMeta file : split.dataFiles()) {
        java.nio.file.Path expected = bucket.resolve(file.fileName());
        if (java.nio.file.Files.exists(expected)) continue;
        if (written.isEmpty())
          try (java.util.stream.Stream<java.nio.file.Path> all = java.nio.file.Files.walk(root)) { all.filter(java.nio.file.Files::isRegularFile).forEach(one -> written.put(one.getFileName().toString(), one)); }
        if (!written.containsKey(file.fileName())) continue;
        java.nio.file.Path top = bucket;
        while (!java.nio.file.Files.exists(top.getParent())) top = top.getParent();
        made.add(new Path((java.nio.file.Files.exists(top) ? expected : top).toUri()));
        java.nio.file.Files.createDirectories(bucket);
        java.nio.file.Files.createLink(expected, written.get(file.fileName()));
      }
    }
    return made;
  }

  static void read(ReadBuilder builder, DataSplit split, RowType type, ArrayNode rows, boolean straight) throws Exception {
    try (RecordReader<InternalRow> reader = builder.newRead().createReader(split)) {
      for (RecordReader.RecordIterator<InternalRow> batch; (batch = reader.readBatch()) != null; batch.releaseBatch())
        for (InternalRow row; (row = batch.next()) != null; ) {
          ArrayNode out = rows.addArray();
          for (int i = 0; i < type.getFieldCount(); i++) out.add(shown(row, i, type.getTypeAt(i)));
          if (!straight) out.addNull().addNull();
          else out.add(split.dataFiles().get(0).fileName()).add(batch instanceof FileRecordIterator ? ((FileRecordIterator<?>) batch).returnedPosition() : -1);
        }
    }
  }

  /** Options that may be altered, with a few values of each: [key, [value, ...]]. */
  static void options(ObjectNode answer) throws Exception {
    Method kind = ConfigOption.class.getDeclaredMethod("getClazz");
    kind.setAccessible(true);
    ArrayNode found = answer.putArray("options");
    for (ConfigOption<?> option : CoreOptions.getOptions()) {
      if (CoreOptions.IMMUTABLE_OPTIONS.contains(option.key())) continue;
      Class<?> type = (Class<?>) kind.invoke(option);
      ArrayNode values = found.addArray().add(option.key()).addArray();
      if (type == Boolean.class) values.add("true").add("false");
      else if (type.isEnum()) for (Object each : type.getEnumConstants()) values.add(each.toString());
      else if (type == Integer.class || type == Long.class) values.add("1").add("2").add("5");
      else if (type == MemorySize.class) values.add("1 kb").add("64 kb").add("128 mb");
      else if (type == java.time.Duration.class) values.add("1 s").add("1 h").add("10000 d");
      else if (option.hasDefaultValue()) values.add(option.defaultValue().toString());
      else values.add("a");
    }
  }

  static void act(JsonNode n, ObjectNode answer) throws Exception {
    switch (n.get("do").asText()) {
      case "create": create(n); break;
      case "write": write(n); break;
      case "compact": compact(n); break;
      case "delete": delete(n); break;
      case "merge": merge(n); break;
      case "alter": alter(n); break;
      case "read": read(n, answer); break;
      case "options": options(answer); break;
      case "tag": if (n.has("snapshot")) table(n).createTag(n.get("tag").asText(), n.get("snapshot").asLong()); else table(n).createTag(n.get("tag").asText()); break;
      case "branch": if (n.has("tag")) table(n).createBranch(n.get("name").asText(), n.get("tag").asText()); else table(n).createBranch(n.get("name").asText()); break;
      case "forward": table(n).fastForward(n.get("name").asText()); break;
      case "rollback": if (n.has("tag")) table(n).rollbackTo(n.get("tag").asText()); else table(n).rollbackTo(n.get("snapshot").asLong()); break;
      case "expire": table(n).newExpireSnapshots().config(ExpireConfig.builder().snapshotRetainMax(n.get("keep").asInt()).snapshotRetainMin(1).snapshotTimeRetain(java.time.Duration.ZERO).build()).expire(); break;
      case "drop": catalog.dropTable(name(n), true); break;
      default: throw new IllegalArgumentException(n.toString());
    }
  }

  interface Act { void on(JsonNode n, ObjectNode answer) throws Exception; }

  public static void main(String[] args) throws Exception {
    serve(args[0], Engine::act);
  }

  static void serve(String warehouse, Act act) throws Exception {
    // What the engine prints must not mix with the answers.
    PrintStream answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
    System.setOut(System.err);
    Options options = new Options();
    options.set("warehouse", warehouse);
    // Others write, too.
    options.set("cache-enabled", "false");
    catalog = CatalogFactory.createCatalog(CatalogContext.create(options));
    catalog.createDatabase("referee", true);
    for (Scanner in = new Scanner(System.in, StandardCharsets.UTF_8); in.hasNextLine(); answers.flush()) {
      ObjectNode answer = JSON.createObjectNode();
      try {
        act.on(JSON.readTree(in.nextLine()), answer);
      } catch (Throwable error) {
        Throwable root = error;
        while (root.getCause() != null) root = root.getCause();
        answer.put("error", String.valueOf(root) + (root.getStackTrace().length > 0 ? " @ " + root.getStackTrace()[0] : ""));
      }
      answers.println(JSON.writeValueAsString(answer));
    }
  }
}
