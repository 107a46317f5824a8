package org.paimonindex;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;
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

    /** Tests that the service knows, by the engine's names; the service writes {@code NotEqual} as {@code NOT_EQUAL}. */
    private static final List<String> TESTS =
            Arrays.asList(
                    "Equal", "NotEqual", "LessThan", "LessOrEqual", "GreaterThan", "GreaterOrEqual", "Between",
                    "NotBetween", "In", "NotIn", "IsNull", "IsNotNull", "StartsWith", "EndsWith", "Contains", "Like");
    private static final Pattern WORDS = Pattern.compile("(?<=[a-z])(?=[A-Z])");
    private static final List<String> COMPOUNDS = Arrays.asList("And", "Or");
    private static final Map<String, Object> UNKNOWN =
            object("kind", "LEAF", "function", "UNKNOWN", "transform", object("name", "UNKNOWN"));

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
                    : object("kind", "COMPOUND", "function", function, "children", children);
        }
        return predicate instanceof LeafPredicate ? leaf((LeafPredicate) predicate) : UNKNOWN;
    }

    private static Map<String, Object> leaf(LeafPredicate leaf) {
        String function = named(TESTS, leaf.function());
        FieldRef column = Releases.column(leaf);
        if (function == null) {
            return UNKNOWN;
        }
        List<Object> literals = new ArrayList<>();
        for (Object literal : leaf.literals()) {
            literals.add(literal == null || column == null ? null : literal(literal, column.type()));
        }
        Object transform =
                column == null
                        ? made(leaf)
                        : object("name", "FIELD_REF", "fieldRef", object("name", column.name()));
        return object("kind", "LEAF", "function", function, "transform", transform, "literals", literals);
    }

    /** What a test since 1.4 is of, such as UPPER of a column: the service says that it does not decide it. */
    private static Object made(LeafPredicate leaf) {
        List<Object> columns = new ArrayList<>();
        for (Object input : leaf.transform().inputs()) {
            if (input instanceof FieldRef) {
                FieldRef column = (FieldRef) input;
                columns.add(object("index", column.index(), "name", column.name()));
            }
        }
        return object("name", leaf.transform().name(), "inputs", columns);
    }

    /** The service's name of the engine's own function; null for any other. */
    private static String named(List<String> names, Object function) {
        Class<?> type = function.getClass();
        boolean isKnown = type.getPackage().equals(Predicate.class.getPackage()) && names.contains(type.getSimpleName());
        return isKnown ? WORDS.matcher(type.getSimpleName()).replaceAll("_").toUpperCase(Locale.ROOT) : null;
    }

    /** A JSON object of names and values by turns. */
    private static Map<String, Object> object(Object... members) {
        Map<String, Object> object = new LinkedHashMap<>();
        for (int i = 0; i < members.length; i += 2) {
            object.put((String) members[i], members[i + 1]);
        }
        return object;
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
                return object("$hex", hex((byte[]) value));
            case DECIMAL:
                return ((Decimal) value).toBigDecimal().toPlainString();
            case DATE:
                return object("$days", (Integer) value);
            case TIMESTAMP_WITHOUT_TIME_ZONE:
            case TIMESTAMP_WITH_LOCAL_TIME_ZONE:
                Timestamp time = (Timestamp) value;
                return object("$ms", time.getMillisecond(), "$nanos", time.getNanoOfMillisecond());
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
