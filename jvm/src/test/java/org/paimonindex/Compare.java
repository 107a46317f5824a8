package org.paimonindex;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.ConcurrentModificationException;
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
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.reader.RecordReader;
import org.apache.paimon.table.FileStoreTable;
import org.apache.paimon.table.Table;
import org.apache.paimon.table.source.ReadBuilder;
import org.apache.paimon.table.source.TableScan;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypeFamily;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.apache.paimon.utils.TypeUtils;

/**
 * Runs queries through the catalog and without it, for tests that start the service.
 *
 * <pre>
 * Compare WAREHOUSE URI [OPTION=VALUE ...]   those that are not the service's are of both catalogs
 * standard input   {"table": "db.name", "options": {...}, "predicate": {...}} a line, behind those that create a table:
 *                  {"create": "db.name", "database": {...}, "options": {...}}
 * standard output  {"rows", "rows_equal", "files", "engine_files", "outcome"} a line, or {"error"} for what the
 *                  engine cannot do either, or {"location"} of a table that was created
 * </pre>
 */
public final class Compare {

    private static final String CREATE = "{\"create\"";

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
        Map<String, String> engines = new HashMap<>();
        for (String option : Arrays.asList(arguments).subList(2, arguments.length)) {
            String[] pair = option.split("=", 2);
            (pair[0].startsWith("paimon-index.") ? options : engines).put(pair[0], pair[1]);
        }
        options.putAll(engines);
        options.put("paimon-index.metastore", engines.getOrDefault("metastore", "filesystem"));
        PrintStream answers = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        try (Catalog engine = WrittenTable.catalog(warehouse, engines);
                BufferedReader questions =
                        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8))) {
            String line = questions.readLine();
            for (; line != null && line.startsWith(CREATE); line = questions.readLine()) {
                answers.println(JsonSerdeUtil.toFlatJson(created(engine, line)));
            }
            // A database of names is locked by another catalog that reads it.
            try (Catalog indexed = WrittenTable.catalog(warehouse, options)) {
                Compare compare = new Compare(engine, indexed);
                for (; line != null; line = questions.readLine()) {
                    answers.println(JsonSerdeUtil.toFlatJson(compare.answer(line)));
                }
            }
        }
    }

    private static Map<String, Object> created(Catalog engine, String line) throws Exception {
        Map<?, ?> wanted = JsonSerdeUtil.fromJson(line, Map.class);
        Identifier name = Identifier.fromString(wanted.get("create").toString());
        WrittenTable.writeIndexed(engine, name, texts(wanted.get("database")), texts(wanted.get("options")));
        return Map.of("location", ((FileStoreTable) engine.getTable(name)).location().toString());
    }

    private Map<String, Object> answer(String line) throws Exception {
        Map<String, Object> answer = new LinkedHashMap<>();
        Map<?, ?> question = JsonSerdeUtil.fromJson(line, Map.class);
        Map<String, String> options = texts(question.get("options"));
        Identifier name = Identifier.fromString(question.get("table").toString());
        Predicate predicate;
        Result theirs;
        try {
            Table table = engine.getTable(name).copy(options);
            predicate = predicate((Map<?, ?>) question.get("predicate"), table.rowType());
            theirs = patiently(table, predicate);
        } catch (Exception | LinkageError e) {
            // Of an older release, which knows less.
            answer.put("error", e.toString());
            return answer;
        }
        Map<String, Long> before = Scans.counts();
        Result ours = patiently(indexed.getTable(name).copy(options), predicate);
        answer.put("outcome", difference(before, Scans.counts()));
        answer.put("rows", theirs.rows.size());
        answer.put("rows_equal", theirs.rows.equals(ours.rows));
        answer.put("files", ours.files);
        answer.put("engine_files", theirs.files);
        return answer;
    }

    private static Map<String, String> texts(Object members) {
        Map<String, String> texts = new HashMap<>();
        ((Map<?, ?>) members).forEach((key, value) -> texts.put(key.toString(), value.toString()));
        return texts;
    }

    /** As any release builds it: none before 1.4 reads JSON, and that one reads no times as text. */
    private static Predicate predicate(Map<?, ?> json, RowType row) {
        String function = json.get("function").toString();
        if (json.containsKey("children")) {
            List<Predicate> children = new ArrayList<>();
            ((List<?>) json.get("children")).forEach(child -> children.add(predicate((Map<?, ?>) child, row)));
            return function.equals("AND") ? PredicateBuilder.and(children) : PredicateBuilder.or(children);
        }
        Map<?, ?> transform = (Map<?, ?>) json.get("transform");
        int column = row.getFieldIndex(((Map<?, ?>) transform.get("fieldRef")).get("name").toString());
        List<Object> literals = new ArrayList<>();
        if (json.get("literals") != null) {
            ((List<?>) json.get("literals")).forEach(literal -> literals.add(value(literal, row.getTypeAt(column))));
        }
        return leaf(new PredicateBuilder(row), function, column, literals);
    }

    private static Predicate leaf(PredicateBuilder columns, String function, int column, List<Object> literals) {
        Object first = literals.isEmpty() ? null : literals.get(0);
        switch (function) {
            case "EQUAL":
                return columns.equal(column, first);
            case "NOT_EQUAL":
                return columns.notEqual(column, first);
            case "LESS_THAN":
                return columns.lessThan(column, first);
            case "LESS_OR_EQUAL":
                return columns.lessOrEqual(column, first);
            case "GREATER_THAN":
                return columns.greaterThan(column, first);
            case "GREATER_OR_EQUAL":
                return columns.greaterOrEqual(column, first);
            case "BETWEEN":
                return columns.between(column, first, literals.get(1));
            case "NOT_BETWEEN":
                return PredicateBuilder.or(
                        columns.lessThan(column, first), columns.greaterThan(column, literals.get(1)));
            case "IN":
                return columns.in(column, literals);
            case "IS_NULL":
                return columns.isNull(column);
            case "IS_NOT_NULL":
                return columns.isNotNull(column);
            case "STARTS_WITH":
                return columns.startsWith(column, first);
            case "ENDS_WITH":
                return columns.endsWith(column, first);
            case "CONTAINS":
                return columns.contains(column, first);
            default:
                throw new IllegalArgumentException("no golden query has " + function);
        }
    }

    private static Object value(Object literal, DataType type) {
        if (literal == null) {
            return null;
        }
        Set<DataTypeFamily> families = type.getTypeRoot().getFamilies();
        if (families.contains(DataTypeFamily.CHARACTER_STRING)) {
            return BinaryString.fromString(literal.toString());
        }
        if (!families.contains(DataTypeFamily.BINARY_STRING)) {
            return TypeUtils.castFromString(literal.toString(), type);
        }
        String digits = literal.toString();
        byte[] bytes = new byte[digits.length() / 2];
        for (int i = 0; i < bytes.length; i++) {
            bytes[i] = (byte) Integer.parseInt(digits.substring(2 * i, 2 * i + 2), 16);
        }
        return bytes;
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

    /** Threads of releases before 1.2 change one map at once while the engine plans by embedded indexes, and some fail. */
    private static Result patiently(Table table, Predicate predicate) throws Exception {
        while (true) {
            try {
                return read(table, predicate);
            } catch (RuntimeException e) {
                Throwable cause = e;
                while (cause.getCause() != null) {
                    cause = cause.getCause();
                }
                if (!(cause instanceof ConcurrentModificationException)) {
                    throw e;
                }
            }
        }
    }

    private static Result read(Table table, Predicate predicate) throws Exception {
        Result result = new Result();
        ReadBuilder read = table.newReadBuilder().withFilter(predicate);
        TableScan.Plan plan = read.newScan().plan();
        result.files.addAll(Scans.files(plan).keySet());
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
