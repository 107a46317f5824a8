package org.paimonindex;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.paimon.data.BinaryString;
import org.apache.paimon.data.Decimal;
import org.apache.paimon.data.GenericArray;
import org.apache.paimon.data.Timestamp;
import org.apache.paimon.predicate.Equal;
import org.apache.paimon.predicate.FieldRef;
import org.apache.paimon.predicate.LeafPredicate;
import org.apache.paimon.predicate.NotBetween;
import org.apache.paimon.predicate.Predicate;
import org.apache.paimon.predicate.PredicateBuilder;
import org.apache.paimon.predicate.UpperTransform;
import org.apache.paimon.types.DataType;
import org.apache.paimon.types.DataTypes;
import org.apache.paimon.types.RowType;
import org.apache.paimon.utils.JsonSerdeUtil;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The engine's predicates as the service's JSON. */
class FiltersTest {

    private static final FieldRef TEXT = new FieldRef(0, "c", DataTypes.STRING());
    private static final Map<?, ?> UNKNOWN =
            Map.of("kind", "LEAF", "function", "UNKNOWN", "transform", Map.of("name", "UNKNOWN"));

    private static PredicateBuilder columns(DataType type) {
        return new PredicateBuilder(RowType.of(new DataType[] {type}, new String[] {"c"}));
    }

    private static BinaryString text(String text) {
        return BinaryString.fromString(text);
    }

    private static Map<?, ?> json(Predicate predicate) {
        return JsonSerdeUtil.fromJson(Filters.json(predicate), Map.class);
    }

    private static Map<?, ?> leaf(String function, Object... literals) {
        return Map.of(
                "kind", "LEAF",
                "function", function,
                "transform", Map.of("name", "FIELD_REF", "fieldRef", Map.of("name", "c")),
                "literals", Arrays.asList(literals));
    }

    static Stream<Arguments> literals() {
        Timestamp late = Timestamp.fromEpochMillis(-1, 999_999);
        return Stream.of(
                Arguments.of(DataTypes.BOOLEAN(), true, true),
                Arguments.of(DataTypes.TINYINT(), (byte) -7, -7),
                Arguments.of(DataTypes.SMALLINT(), (short) 300, 300),
                Arguments.of(DataTypes.INT(), Integer.MIN_VALUE, Integer.MIN_VALUE),
                Arguments.of(DataTypes.BIGINT(), Long.MAX_VALUE, Long.MAX_VALUE),
                Arguments.of(DataTypes.FLOAT(), 0.1f, "0.1"),
                Arguments.of(DataTypes.FLOAT(), -0.0f, "-0.0"),
                Arguments.of(DataTypes.DOUBLE(), Double.NaN, "NaN"),
                Arguments.of(DataTypes.DOUBLE(), Double.NEGATIVE_INFINITY, "-Infinity"),
                Arguments.of(DataTypes.CHAR(3), text("ö'\""), "ö'\""),
                Arguments.of(DataTypes.VARCHAR(9), text(""), ""),
                Arguments.of(DataTypes.BYTES(), new byte[] {0, 0x7f, -1}, Map.of("$hex", "007fff")),
                Arguments.of(DataTypes.BINARY(1), new byte[] {10}, Map.of("$hex", "0a")),
                Arguments.of(
                        DataTypes.DECIMAL(38, 10),
                        Decimal.fromBigDecimal(new BigDecimal("-1234567890123456789012345678.0000000001"), 38, 10),
                        "-1234567890123456789012345678.0000000001"),
                Arguments.of(DataTypes.DATE(), -1, Map.of("$days", -1)),
                Arguments.of(DataTypes.TIME(3), 86_399_999, 86_399_999),
                Arguments.of(DataTypes.TIMESTAMP(9), late, Map.of("$ms", -1, "$nanos", 999_999)),
                Arguments.of(
                        DataTypes.TIMESTAMP_WITH_LOCAL_TIME_ZONE(9), late, Map.of("$ms", -1, "$nanos", 999_999)));
    }

    @ParameterizedTest
    @MethodSource("literals")
    void writeLiteralsOfEachType(DataType type, Object literal, Object written) {
        assertEquals(leaf("EQUAL", written), json(columns(type).equal(0, literal)));
    }

    @Test
    void nameEachTest() {
        PredicateBuilder columns = columns(DataTypes.INT());
        PredicateBuilder texts = columns(DataTypes.STRING());
        assertEquals(leaf("NOT_EQUAL", 1), json(columns.notEqual(0, 1)));
        assertEquals(leaf("LESS_THAN", 1), json(columns.lessThan(0, 1)));
        assertEquals(leaf("LESS_OR_EQUAL", 1), json(columns.lessOrEqual(0, 1)));
        assertEquals(leaf("GREATER_THAN", 1), json(columns.greaterThan(0, 1)));
        assertEquals(leaf("GREATER_OR_EQUAL", 1), json(columns.greaterOrEqual(0, 1)));
        assertEquals(leaf("BETWEEN", 1, 2), json(columns.between(0, 1, 2)));
        assertEquals(
                leaf("NOT_BETWEEN", 1, 2),
                json(new LeafPredicate(NotBetween.INSTANCE, DataTypes.INT(), 0, "c", List.of(1, 2))));
        Object[] many = Stream.iterate(0, i -> i + 1).limit(30).toArray();
        assertEquals(leaf("IN", many), json(columns.in(0, List.of(many))));
        assertEquals(leaf("NOT_IN", many), json(columns.notIn(0, List.of(many))));
        assertEquals(leaf("IS_NULL"), json(columns.isNull(0)));
        assertEquals(leaf("IS_NOT_NULL"), json(columns.isNotNull(0)));
        assertEquals(leaf("STARTS_WITH", "a"), json(texts.startsWith(0, text("a"))));
        assertEquals(leaf("ENDS_WITH", "a"), json(texts.endsWith(0, text("a"))));
        assertEquals(leaf("CONTAINS", "a"), json(texts.contains(0, text("a"))));
        assertEquals(leaf("LIKE", "a_b%c"), json(texts.like(0, text("a_b%c"))));
        assertEquals(leaf("EQUAL", (Object) null), json(columns.equal(0, null)));
    }

    @Test
    void nestAsTheEngineNests() {
        PredicateBuilder columns = columns(DataTypes.INT());
        Predicate either = PredicateBuilder.or(columns.equal(0, 1), columns.isNull(0));

        assertEquals(
                Map.of(
                        "kind", "COMPOUND",
                        "function", "AND",
                        "children",
                        List.of(
                                Map.of(
                                        "kind", "COMPOUND",
                                        "function", "OR",
                                        "children", List.of(leaf("EQUAL", 1), leaf("IS_NULL"))),
                                leaf("LESS_THAN", 9))),
                json(PredicateBuilder.and(either, columns.lessThan(0, 9))));
    }

    @Test
    void leaveOpenWhatTheyDoNotKnow() {
        Predicate upper = LeafPredicate.of(new UpperTransform(List.of(TEXT)), Equal.INSTANCE, List.of(text("A")));

        assertEquals(
                Map.of(
                        "kind", "LEAF",
                        "function", "EQUAL",
                        "transform", Map.of("name", "UPPER", "inputs", List.of(Map.of("index", 0, "name", "c"))),
                        "literals", Arrays.asList((Object) null)),
                json(upper));
        assertEquals(UNKNOWN, json(PredicateBuilder.alwaysTrue()));
    }

    @Test
    void haveNoLiteralOfOtherTypesOrOfBrokenText() {
        PredicateBuilder arrays = columns(DataTypes.ARRAY(DataTypes.INT()));
        PredicateBuilder texts = columns(DataTypes.STRING());
        BinaryString broken = BinaryString.fromBytes(new byte[] {'a', (byte) 0xff});

        assertThrows(
                RuntimeException.class, () -> Filters.json(arrays.equal(0, new GenericArray(new int[] {1}))));
        assertThrows(RuntimeException.class, () -> Filters.json(texts.equal(0, broken)));
        assertThrows(RuntimeException.class, () -> Filters.json(columns(DataTypes.INT()).equal(0, 1L)));
    }
}
