package org.paimonindex;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.paimon.catalog.Catalog;
import org.apache.paimon.catalog.Identifier;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.InternalRow;
import org.apache.paimon.data.serializer.InternalRowSerializer;
import org.apache.paimon.io.DataFileMeta;
import org.apache.paimon.predicate.LeafPredicate;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.DataSplit;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.Split;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeFamily;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.utils.TypeUtils;

/**
 * Runs queries through the catalog and without it, for tests that start the service.
 *
 * <pre>
 * Compare WAREHOUSE URI [OPTION=VALUE ...]
 * standard input   {"table": "db.name", "options": {...}, "predicate": {...}} a line
 * standard output  {"rows", "rows_equal", "files", "engine_files", "outcome"} a line, or {"error"} for what the
 *                  engine cannot do either
 * </pre>
 */
public final class Compare {

    private final Catalog engine;
    private final Catalog indexed;

    private Compare(Catalog engine, Catalog indexed) {
        this.engine = engine;
        this.indexed = indexed;
    }

    public static void main(String[] arguments) throws Exception {
        Path warehouse = Path.of(arguments[0]);
        // However busy this machine is, the service is waited for.
        Map<String, String> options =
                new HashMap<>(Map.of("paimon-index.uri", arguments[1], "paimon-index.timeout", "60 s"));
        for (String option : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] pair = option.split("=", 2);
            options.put(pair[0], pair[1]);
        }
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (Catalog engine = WrittenTable.catalog(warehouse, Map.of());
                Catalog indexed = WrittenTable.catalog(warehouse, options);
                BufferedReader questions =
                        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            Compare compare = new Compare(engine, indexed);
            for (String line = questions.readLine(); line != null; line = questions.readLine()) {
                answers.println(JsonSerdeUtil.toFlatJson(compare.answer(line)));
            }
        }
    }

    private Map<String, Object> answer(String line) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        Map<?, ?> question = JsonSerdeUtil.fromJson(line, Map.class);
        Identifier name = Identifier.fromString(question.get("table").toString());
        Map<String, String> options = new HashMap<>();
        ((Map<?, ?>) question.get("options"))
                .forEach((key, value) -> options.put(key.toString(), value.toString()));
        Predicate predicate = predicate((Map<?, ?>) question.get("predicate"));
        Result theirs;
        try {
            theirs = read(engine.getTable(name).copy(options), predicate);
        } catch (RuntimeException e) {
            answer.put("error", e.toString());
            return answer;
        }
        Map<String, Long> before = Scans.counts();
        Result ours = read(indexed.getTable(name).copy(options), predicate);
        answer.put("outcome", difference(before, Scans.counts()));
        answer.put("rows", theirs.rows.size());
        answer.put("rows_equal", theirs.rows.equals(ours.rows));
        answer.put("files", ours.files);
        answer.put("engine_files", theirs.files);
        return answer;
    }

    /** The engine's own reader of predicates takes no times as text, which its writer writes. */
    @SuppressWarnings("unchecked")
    private static Predicate predicate(Map<?, ?> json) {
        Map<String, Object> members = new HashMap<>((Map<String, Object>) json);
        if (json.containsKey("children")) {
            List<Predicate> children = new ArrayList<>();
            ((List<?>) json.get("children")).forEach(child -> children.add(predicate((Map<?, ?>) child)));
            return json.get("function").equals("AND") ? PredicateBuilder.and(children) : PredicateBuilder.or(children);
        }
        List<?> literals = json.containsKey("literals") ? (List<?>) json.get("literals") : List.of();
        members.put("literals", List.of());
        LeafPredicate leaf =
                (LeafPredicate) JsonSerdeUtil.fromJson(JsonSerdeUtil.toFlatJson(members), Predicate.class);
        DataType type = leaf.transform().outputType();
        List<Object> values = new ArrayList<>();
        for (Object literal : literals) {
            values.add(value(literal, type));
        }
        return new LeafPredicate(leaf.transform(), leaf.function(), values);
    }

    private static Object value(Object literal, DataType type) {
        if (literal == null) {
            return null;
        }
        boolean isText = type.getTypeRoot().getFamilies().contains(DataTypeFamily.CHARACTER_STRING);
        return isText
                ? BinaryString.fromString(literal.toString())
                : TypeUtils.castFromString(literal.toString(), type);
    }

    private static List<String> difference(Map<String, Long> before, Map<String, Long> after) {
        List<String> found = new ArrayList<>();
        new TreeMap<>(after).forEach((outcome, count) -> {
            if (count > before.get(outcome)) {
                found.add(outcome);
            }
        });
        return found;
    }

    private static final class Result {
        final List<String> rows = new ArrayList<>();
        final Set<String> files = new TreeSet<>();
    }

    private static Result read(Table table, Predicate predicate) throws Exception {
        Result result = new Result();
        ReadBuilder read = table.newReadBuilder().withFilter(predicate);
        TableScan.Plan plan = read.newScan().plan();
        for (Split split : plan.splits()) {
            if (split instanceof DataSplit) {
                for (DataFileMeta file : ((DataSplit) split).dataFiles()) {
                    result.files.add(file.fileName());
                }
            }
        }
        InternalRowSerializer bytes = new InternalRowSerializer(table.rowType());
        try (RecordReader<InternalRow> rows = read.newRead().createReader(plan)) {
            rows.forEachRemaining(
                    row -> {
                        if (predicate.test(row)) {
                            result.rows.add(Arrays.toString(bytes.toBinaryRow(row).toBytes()));
                        }
                    });
        }
        Collections.sort(result.rows);
        return result;
    }
}
