"""Explains why a condition of Spark SQL is not decided, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import Final

from app.predicates.sql.tokens import Token, TokenKind

TWO_COLUMNS: Final = "it compares two columns, and indexes know each column alone"

_TESTS_WITHOUT_FUNCTION: Final = {
    "CASE": "CASE is not read: write its branches with AND and OR",
    "EXISTS": "a query within a filter is not run",
    "SELECT": "a query within a filter is not run",
    "ILIKE": "of patterns, only LIKE is decided",
    "RLIKE": "of patterns, only LIKE is decided",
    "REGEXP": "of patterns, only LIKE is decided",
    "LIKE": "LIKE is decided for a column and a single pattern in quotes",
    "INTERVAL": "intervals are added only to a date or to now(): write the value that it comes to",
}
_COMPUTING: Final = frozenset({"+", "-", "*", "/", "%", "&", "|", "^", "||", "<<", ">>", ">>>", "DIV", "~"})
# Words that may precede a parenthesis without being functions.
_KEYWORDS: Final = frozenset(
    {"AND", "OR", "NOT", "IN", "BETWEEN", "IS", "AS", "WHEN", "THEN", "ELSE", "ANY", "ALL", "SOME"}
)

_WORDS_IN_CALLS: Final = frozenset({"FROM", "FOR", "TRUE", "FALSE", "NULL", "DISTINCT", "INTERVAL"})
_RANGE: Final = "{0} >= '2026-11-03' AND {0} < '2026-11-04'"
_LINES: Final = {
    name: line
    for names, line in (
        ("initcap lcase lower ucase upper", "{0} IN ('abc', 'Abc', 'ABC'), with each spelling that there is"),
        ("btrim ltrim rtrim trim", "{0} IN ('abc', ' abc'), with each spelling that there is"),
        (
            "left substr substring substring_index split_part instr locate position regexp_like",
            "{0} LIKE 'abc%'",
        ),
        ("coalesce ifnull nvl nvl2", "({0} = 5 OR {0} IS NULL)"),
        ("concat concat_ws", "a test of each column, {0} = ... AND ..."),
        ("abs", "{0} IN (5, -5)"),
        ("bround ceil ceiling floor int round", "{0} >= 5 AND {0} < 6"),
        ("from_unixtime timestamp_seconds", "{0} >= 1793664000 AND {0} < 1793750400"),
        ("date date_add date_diff date_format date_part date_sub date_trunc datediff datepart", _RANGE),
        ("day dayofmonth dayofweek dayofyear extract hour last_day minute quarter second", _RANGE),
        ("month", "year({0}) = 2026 AND month({0}) = 11"),
        ("to_date to_timestamp to_unix_timestamp trunc unix_timestamp weekday weekofyear year", _RANGE),
    )
    for name in names.split()
}

# Shorter names resemble too many others.
_SHORTEST_MISSPELLED: Final = 4
_LONGEST_MISSPELLED: Final = 40


def why_unread(tokens: Sequence[Token]) -> str:
    """Explain why tokens of a condition do not form a test of a column by literals."""
    calls = (at for at, pair in enumerate(pairwise(tokens)) if _called(*pair) and tokens[at - 1].word != "::")
    function = next(calls, None)
    if function is not None:
        return _why_called(tokens[function].text, tokens[function + 2 :])
    words = [token.word for token in tokens]
    for word, reason in _TESTS_WITHOUT_FUNCTION.items():
        if word in words:
            return reason
    if "||" in words:
        return "|| joins texts: compare the column itself (of two conditions, either is OR)"
    if not _COMPUTING.isdisjoint(words):
        return "it computes a value: let the column stand alone on one side, and a literal on the other"
    if "::" in words:
        return "it casts: compare the column itself with a literal of its type"
    return "it does not compare a column with literals"


def _called(token: Token, behind: Token) -> bool:
    is_call = behind.word == "(" and token.kind is TokenKind.WORD and token.word not in _KEYWORDS
    return is_call and token.word not in _TESTS_WITHOUT_FUNCTION


def _why_called(name: str, behind: Sequence[Token]) -> str:
    lower = name.lower()
    if lower in ("cast", "try_cast"):
        return (
            "of casts, those of a literal to a date, a timestamp, a number or STRING, and of columns to DATE "
            "are read: compare the column itself with a literal of its type"
        )
    if lower not in _SPARK_FUNCTIONS:
        suggestion = _suggestion(lower)
        question = "" if suggestion is None else f": did you mean {suggestion}?"
        return f"{name:.60} is no function of Spark's own, and indexes know no other{question}"
    inner = list(takewhile(lambda token: token.word != ")", behind))
    columns = [one.text for one, other in zip(inner, behind[1:], strict=False) if _is_column(one, other)]
    if columns:
        line = _LINES.get(lower, "{0} = ... or {0} IN (...), with the values of which it is true")
        return (
            f"{name} is a function, and indexes hold the values of columns: write {line.format(columns[-1])}"
        )
    if inner:
        return f"{name} is computed of constants: write the value that it comes to"
    return f"{name} is a function, and indexes hold the values of columns"


def line_instead(function: str, column: str) -> str:
    """Suggest a test of the column instead of a test of a function."""
    line = _LINES.get(function, "{0} = ... or {0} IN (...), with the values of which it is true")
    return line.format(column)


def _is_column(token: Token, behind: Token) -> bool:
    is_name = token.kind is TokenKind.QUOTED or (
        token.kind is TokenKind.WORD and token.word not in _KEYWORDS | _WORDS_IN_CALLS
    )
    return is_name and behind.word not in ("(", ".") and behind.kind is not TokenKind.STRING


def _suggestion(name: str) -> str | None:
    if not _SHORTEST_MISSPELLED <= len(name) <= _LONGEST_MISSPELLED:
        return None
    shorter = list(_shortened(name))
    by_shortened = _by_shortened()
    candidates = (
        candidate if candidate in _SPARK_FUNCTIONS else by_shortened.get(candidate)
        for candidate in (name, *shorter)
    )
    return next(filter(None, candidates), None)


@lru_cache(maxsize=1)
def _by_shortened() -> dict[str, str]:
    names = (function for function in sorted(_SPARK_FUNCTIONS) if len(function) >= _SHORTEST_MISSPELLED)
    return {shorter: name for name in names for shorter in _shortened(name)}


def _shortened(name: str) -> Iterator[str]:
    return (name[:at] + name[at + 1 :] for at in range(len(name)))


# Functions of Spark 4.0 in lower case, without operators.
_SPARK_FUNCTIONS: Final = frozenset(
    """
    abs acos acosh add_months aes_decrypt aes_encrypt aggregate any any_value approx_count_distinct
    approx_percentile array array_agg array_append array_compact array_contains array_distinct
    array_except array_insert array_intersect array_join array_max array_min array_position array_prepend
    array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh
    assert_true atan atan2 atanh avg base64 bigint bin binary bit_and bit_count bit_get bit_length bit_or
    bit_xor bitmap_bit_position bitmap_bucket_number bitmap_construct_agg bitmap_count bitmap_or_agg
    bool_and bool_or boolean bround btrim cardinality cast cbrt ceil ceiling char char_length
    character_length chr coalesce collate collation collations collect_list collect_set concat concat_ws
    contains conv convert_timezone corr cos cosh cot count count_if count_min_sketch covar_pop covar_samp
    crc32 csc cume_dist curdate current_catalog current_database current_date current_schema
    current_timestamp current_timezone current_user date date_add date_diff date_format
    date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart day dayname dayofmonth
    dayofweek dayofyear decimal decode degrees dense_rank double e element_at elt encode endswith
    equal_null every exists exp explode explode_outer expm1 extract factorial filter find_in_set first
    first_value flatten float floor forall format_number format_string from_avro from_csv from_json
    from_protobuf from_unixtime from_utc_timestamp from_xml get get_json_object getbit greatest grouping
    grouping_id hash hex histogram_numeric hll_sketch_agg hll_sketch_estimate hll_union hll_union_agg hour
    hypot if ifnull initcap inline inline_outer input_file_block_length input_file_block_start
    input_file_name instr int is_valid_utf8 is_variant_null isnan isnotnull isnull java_method
    json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value lcase lead least
    left len length levenshtein listagg ln localtimestamp locate log log10 log1p log2 lower lpad ltrim
    luhn_check make_date make_dt_interval make_interval make_timestamp make_timestamp_ltz
    make_timestamp_ntz make_valid_utf8 make_ym_interval map map_concat map_contains_key map_entries
    map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean
    median min min_by minute mod mode monotonically_increasing_id month monthname months_between
    named_struct nanvl negative next_day now nth_value ntile nullif nullifzero nvl nvl2 octet_length
    overlay parse_json parse_url percent_rank percentile percentile_approx percentile_cont percentile_disc
    pi pmod posexplode posexplode_outer position positive pow power printf quarter radians raise_error
    rand randn random randstr range rank reduce reflect regexp_count regexp_extract regexp_extract_all
    regexp_instr regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept
    regr_r2 regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint round row_number rpad
    rtrim schema_of_avro schema_of_csv schema_of_json schema_of_variant schema_of_variant_agg
    schema_of_xml sec second sentences sequence session_user session_window sha sha1 sha2 shiftleft
    shiftright shiftrightunsigned shuffle sign signum sin sinh size skewness slice smallint some
    sort_array soundex space spark_partition_id split split_part sql_keywords sqrt stack startswith std
    stddev stddev_pop stddev_samp str_to_map string string_agg struct substr substring substring_index sum
    tan tanh timestamp timestamp_micros timestamp_millis timestamp_seconds tinyint to_avro to_binary
    to_char to_csv to_date to_json to_number to_protobuf to_timestamp to_timestamp_ltz to_timestamp_ntz
    to_unix_timestamp to_utc_timestamp to_varchar to_variant_object to_xml transform transform_keys
    transform_values translate trim trunc try_add try_aes_decrypt try_avg try_divide try_element_at
    try_make_interval try_make_timestamp try_make_timestamp_ltz try_make_timestamp_ntz try_mod
    try_multiply try_parse_json try_parse_url try_reflect try_subtract try_sum try_to_binary try_to_number
    try_to_timestamp try_url_decode try_validate_utf8 try_variant_get typeof ucase unbase64 unhex uniform
    unix_date unix_micros unix_millis unix_seconds unix_timestamp upper url_decode url_encode user uuid
    validate_utf8 var_pop var_samp variance variant_explode variant_explode_outer variant_get version
    weekday weekofyear width_bucket window window_time xpath xpath_boolean xpath_double xpath_float
    xpath_int xpath_long xpath_number xpath_short xpath_string xxhash64 year zeroifnull zip_with
    """.split()  # noqa: SIM905 - a line has many
)
