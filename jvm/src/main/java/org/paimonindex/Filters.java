package org.paimonindex;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.predicate.CompoundPredicate;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.LeafPredicate;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.types.DataType;
import org.apache.paimon.utils.JsonSerdeUtil;

/**
 * Predicates of the engine as the service's JSON. The engine itself writes them since 1.4, without bytes.
 *
 * <p>A test that is not known here is written as an unknown one, which every row may meet; a literal that is not is an
 * error. Literals are written in the forms that depend on no zone and lose no digit.
 */
final class Filters {

    private static final Map<String, String> TESTS =
            Map.ofEntries(
                    Map.entry("Equal", "EQUAL"),
                    Map.entry("NotEqual", "NOT_EQUAL"),
                    Map.entry("LessThan", "LESS_THAN"),
                    Map.entry("LessOrEqual", "LESS_OR_EQUAL"),
                    Map.entry("GreaterThan", "GREATER_THAN"),
                    Map.entry("GreaterOrEqual", "GREATER_OR_EQUAL"),
                    Map.entry("Between", "BETWEEN"),
                    Map.entry("NotBetween", "NOT_BETWEEN"),
                    Map.entry("In", "IN"),
                    Map.entry("NotIn", "NOT_IN"),
                    Map.entry("IsNull", "IS_NULL"),
                    Map.entry("IsNotNull", "IS_NOT_NULL"),
                    Map.entry("StartsWith", "STARTS_WITH"),
                    Map.entry("EndsWith", "ENDS_WITH"),
                    Map.entry("Contains", "CONTAINS"),
                    Map.entry("Like", "LIKE"));
    private static final Map<String, String> COMPOUNDS = Map.of("And", "AND", "Or", "OR");
    private static final Map<String, Object> UNKNOWN =
            Map.of("kind", "LEAF", "function", "UNKNOWN", "transform", Map.of("name", "UNKNOWN"));

    private Filters() {}

    /**
     * The JSON text of a predicate.
     *
     * @throws RuntimeException a literal has no form in it
     */
    static String json(Predicate predicate) {
        return JsonSerdeUtil.toFlatJson(members(predicate));
    }

    private static Map<String, Object> members(Predicate predicate) {
        if (predicate instanceof CompoundPredicate) {
            String function = named(COMPOUNDS, Releases.function((CompoundPredicate) predicate));
            List<Object> children = new ArrayList<>();
            for (Predicate child : ((CompoundPredicate) predicate).children()) {
                children.add(members(child));
            }
            return function == null
                    ? UNKNOWN
                    : Map.of("kind", "COMPOUND", "function", function, "children", children);
        }
        return predicate instanceof LeafPredicate ? leaf((LeafPredicate) predicate) : UNKNOWN;
    }

    private static Map<String, Object> leaf(LeafPredicate leaf) {
        String function = named(TESTS, leaf.function());
        FieldRef column = Releases.column(leaf);
        if (function == null || column == null) {
            return UNKNOWN;
        }
        List<Object> literals = new ArrayList<>();
        for (Object literal : leaf.literals()) {
            literals.add(literal == null ? null : literal(literal, column.type()));
        }
        Map<String, Object> members = new LinkedHashMap<>();
        members.put("kind", "LEAF");
        members.put("function", function);
        members.put("transform", Map.of("name", "FIELD_REF", "fieldRef", Map.of("name", column.name())));
        members.put("literals", literals);
        return members;
    }

    /** What the engine's own function of this name is called; null for any other. */
    private static String named(Map<String, String> names, Object function) {
        Class<?> type = function.getClass();
        return type.getPackageName().equals(Predicate.class.getPackageName()) ? names.get(type.getSimpleName()) : null;
    }

    private static Object literal(Object value, DataType type) {
        switch (type.getTypeRoot()) {
            case BOOLEAN:
                return (Boolean) value;
            case TINYINT:
                return (Byte) value;
            case SMALLINT:
                return (Short) value;
            case INTEGER:
            case TIME_WITHOUT_TIME_ZONE:
                return (Integer) value;
            case BIGINT:
                return (Long) value;
            case FLOAT:
                return Float.toString((Float) value);
            case DOUBLE:
                return Double.toString((Double) value);
            case CHAR:
            case VARCHAR:
                return text((BinaryString) value);
            case BINARY:
            case VARBINARY:
                return Map.of("$hex", hex((byte[]) value));
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case DATE:
                return Map.of("$days", (Integer) value);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp time = (Timestamp) value;
                return Map.of("$ms", time.getMillisecond(), "$nanos", time.getNanoOfMillisecond());
            default:
                throw new IllegalArgumentException("there is no literal of " + type);
        }
    }

    private static String text(BinaryString value) {
        String text = value.toString();
        if (!BinaryString.fromString(text).equals(value)) {
            throw new IllegalArgumentException("the bytes of a string are not UTF-8");
        }
        return text;
    }

    private static String hex(byte[] bytes) {
        StringBuilder digits = new StringBuilder(2 * bytes.length);
        for (byte each : bytes) {
            digits.append(Character.forDigit(each >> 4 & 15, 16)).append(Character.forDigit(each & 15, 16));
        }
        return digits.toString();
    }
}
