"""``aggregate``: counts, extremes and sums of a table, of which few files are read.

The service computes partial results from statistics and indexes, and names the files that it leaves open.
Spark reads only these, and the partial results of both are combined by one aggregation.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as spark_types

from paimon_index.client import Client
from paimon_index.errors import PaimonIndexError
from paimon_index.requests import TableName
from paimon_index.spark.column_types import SimpleType, char_length, is_cut_in_spark
from paimon_index.spark.conditions import check_where
from paimon_index.spark.frames import quoted
from paimon_index.spark.questions import (
    PythonShare,
    ask,
    columns_of,
    condition_at,
    needed,
    resolved,
)
from paimon_index.spark.reading import matching_rows, read_table
from paimon_index.spark.refusals import (
    READERS,
    check_session,
    check_session_options,
    check_word,
    checked_names,
)
from paimon_index.spark.store_access import StoreAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from paimon_index.catalog import Schema, SchemaColumn
    from paimon_index.options import AggregateFunction, VersionOptions
    from paimon_index.results import AggregateAnswer
    from paimon_index.spark.conditions import Where
    from paimon_index.spark.questions import Scan

_FUNCTIONS: Final[dict[str, Callable[..., Column]]] = {
    "count": F.count,
    "count_distinct": F.count_distinct,
    "min": F.min,
    "max": F.max,
    "sum": F.sum,
}
_ROWS: Final[AggregateFunction] = {"function": "count"}
_MOST_GROUPS: Final = 100_000
"""The service's limit of groups in an answer."""
_DIGITS_THAT_SUMS_HOLD: Final = 28
"""Most digits of decimals to sum: a sum has ten digits more, and a DECIMAL at most 38."""
_UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"
"""Character that stands in answers for bytes that are not UTF-8."""


def aggregate(  # noqa: PLR0913 - each is a part of one question
    spark: SparkSession,
    url: str | Sequence[str],
    table: str,
    *,
    aggregates: Sequence[AggregateFunction] = (_ROWS,),
    group_by: Sequence[str] = (),
    where: Where | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    token: str | None = None,
    reader: Literal["auto", "rows"] = "auto",
    on_unavailable: Literal["error", "scan"] = "error",
    deadline_seconds: float = 30.0,
) -> DataFrame:
    """Aggregate a Paimon table, from indexes and statistics where possible.

    The columns are those of ``SELECT group_by, aggregates FROM table WHERE where GROUP BY group_by``. Spark
    reads the files that the service leaves open. It reads all files that the condition allows if the parts
    would not add up, or if the service refuses or does not answer. Indexes give counts by one column.
    ``deadline_seconds`` is the time for the answer, and again for the plan of the files to read. Other
    arguments and exceptions are those of :func:`read_table`.
    """
    check_session(spark)
    check_where(where)
    check_word("reader", reader, READERS)
    _check_aggregates(aggregates)
    group_by = checked_names("group_by", group_by)
    check_session_options(spark, TableName.parse(table))
    version: VersionOptions = {"snapshot_id": snapshot_id, "tag": tag, "branch": branch}
    access = StoreAccess(spark)
    try:
        with Client(url, token=token, deadline_seconds=deadline_seconds) as client:
            condition = condition_at(spark, client, table, where, version)
            answer = client.aggregate(
                table,
                aggregates=aggregates,
                group_by=group_by,
                filter=condition.predicate,
                top=_MOST_GROUPS,
                **version,
            )
            scan = ask(
                client,
                table,
                condition.predicate,
                files=answer.open_files,
                version=version if tag is not None else {**version, "snapshot_id": answer.snapshot_id},
                reader=reader,
                python_share=PythonShare.of(spark, access),
            )
    except PaimonIndexError as error:
        warnings.warn(f"all files that the condition allows are read: {error}", stacklevel=2)
    else:
        is_read_alike = where is None or condition.fields == scan.schema.fields
        if is_read_alike and _adds_up(answer, scan, aggregates, group_by):
            projection = [resolved(scan.schema, name) for name in _names(aggregates, group_by)]
            names = needed(scan.schema, condition.names, projection)
            rows = matching_rows(spark, scan, access, names, branch, where)
            opened = _computed(rows, aggregates, group_by)
            settled = _settled(spark, answer, aggregates, group_by, scan.schema, opened.schema)
            return _added(opened, settled, aggregates, len(group_by)) if answer.open_files else settled
    rows = read_table(
        spark,
        url,
        table,
        where=where,
        columns=list({name.lower(): name for name in _names(aggregates, group_by)}.values()),
        snapshot_id=snapshot_id,
        tag=tag,
        branch=branch,
        token=token,
        reader=reader,
        on_unavailable=on_unavailable,
        deadline_seconds=deadline_seconds,
    )
    return _computed(rows, aggregates, group_by)


def _check_aggregates(aggregates: Sequence[AggregateFunction]) -> None:
    if not aggregates:
        raise ValueError("aggregates is empty: name a function, such as {'function': 'count'}")
    for each in aggregates:
        check_word("function", each["function"], tuple(_FUNCTIONS))
        if each.get("column") is None and each["function"] != "count":
            raise ValueError(f"{each['function']} takes a column; only count does without")


def _names(aggregates: Sequence[AggregateFunction], group_by: Sequence[str]) -> list[str]:
    return [*group_by, *(name for each in aggregates if (name := each.get("column")) is not None)]


def _adds_up(
    answer: AggregateAnswer,
    scan: Scan,
    aggregates: Sequence[AggregateFunction],
    group_by: Sequence[str],
) -> bool:
    """Return True if settled and open parts are disjoint and complete, in values that Spark has, too."""
    facts = scan.facts
    if facts.snapshot_id != answer.snapshot_id or facts.summary.files_total != len(answer.open_files):
        return False  # the table was recreated meanwhile, or files of one name are settled and open
    if len(answer.groups) < answer.groups_total:
        return False
    if answer.open_files and not all(_has_partial_results(each, scan.schema) for each in aggregates):
        return False
    valued = [each for each in aggregates if each["function"] != "count"]
    for field in columns_of(scan.schema, _names(valued, group_by)):
        if is_cut_in_spark(field.type):
            return False  # Spark cuts them
    keys = _keys(answer.groups, columns_of(scan.schema, group_by))
    if len(set(keys)) < len(keys):
        return False  # groups that Spark holds equal
    settled = (value for group in answer.groups for value in _values(group))
    return not any(isinstance(value, str) and _UNREADABLE in value for value in settled)


def _has_partial_results(aggregation: AggregateFunction, schema: Schema) -> bool:
    """Return True if the aggregate of all rows follows from aggregates of parts."""
    if aggregation["function"] == "count_distinct":
        return False  # a value may be in both; services of another release may answer it
    if aggregation["function"] != "sum":
        return True
    # Without spark.sql.ansi.enabled an overflowing sum is NULL, and so indistinguishable from a sum of no
    # values.
    [field] = columns_of(schema, _names([aggregation], ()))
    simple = SimpleType.parse(str(field.type))
    return simple.root != "DECIMAL" or simple.size <= _DIGITS_THAT_SUMS_HOLD


def _keys(groups: Sequence[Any], columns: Sequence[SchemaColumn]) -> list[tuple[str | None, ...]]:
    return [
        tuple(_text(group.key[column.name], char_length(column.type) or 0) for column in columns)
        for group in groups
    ]


def _values(group: Any) -> list[Any]:
    return [*group.key.values(), *(each.settled for each in group.values)]


def _computed(rows: DataFrame, aggregates: Sequence[AggregateFunction], group_by: Sequence[str]) -> DataFrame:
    columns = []
    for each in aggregates:
        column = each.get("column")
        columns.append(_FUNCTIONS[each["function"]]("*" if column is None else F.col(quoted(column))))
    return rows.groupBy([F.col(quoted(name)) for name in group_by]).agg(*columns)


def _settled(
    spark: SparkSession,
    answer: AggregateAnswer,
    aggregates: Sequence[AggregateFunction],
    group_by: Sequence[str],
    schema: Schema,
    target: spark_types.StructType,
) -> DataFrame:
    keys = columns_of(schema, group_by)
    groups = [group for group in answer.groups if group.rows or not keys]
    columns = [list(values) for values in zip(*_keys(groups, keys), strict=True)] or [[] for _ in keys]
    for at, each in enumerate(aggregates):
        is_value = each["function"] in ("min", "max")
        lengths = [
            char_length(field.type) or 0 for field in columns_of(schema, _names([each], ())) if is_value
        ]
        columns += [[_text(group.values[at].settled, *lengths) for group in groups]]
    names = [f"_{at}" for at in range(len(target))]
    texts = spark.createDataFrame(pa.table([pa.array(each, pa.string()) for each in columns], names))
    values = [
        _of_text(F.col(name), field.dataType, is_key=at < len(keys))
        for at, (name, field) in enumerate(zip(names, target, strict=True))
    ]
    return texts.select(_titled(values, target))


def _text(value: Any, length: int = 0) -> str | None:
    """Return text that Spark casts to the value's type. Texts of CHAR are padded."""
    match value:
        case None:
            return None
        case str():
            return value.ljust(length)
        case dict():
            return str(value["$hex"])
        case bool():
            return str(value).lower()
    return repr(value)


def _of_text(text: Column, data_type: spark_types.DataType, *, is_key: bool) -> Column:
    match data_type:
        case spark_types.BinaryType():
            return F.unhex(text)
        case spark_types.FloatType() | spark_types.DoubleType() if is_key:
            # Spark groups -0.0 with 0.0 and shows 0.0.
            return text.cast(data_type) + F.lit(0).cast(data_type)
    return text.cast(data_type)


def _added(
    opened: DataFrame, settled: DataFrame, aggregates: Sequence[AggregateFunction], key_count: int
) -> DataFrame:
    target = opened.schema
    names = [f"_{at}" for at in range(len(target))]
    parts = opened.toDF(*names).unionAll(settled.toDF(*names))
    added: list[Column] = []
    for name, each, field in zip(names[key_count:], aggregates, target[key_count:], strict=True):
        function = "sum" if each["function"] == "count" else each["function"]
        # The sum of sums of decimals has more digits.
        added.append(_FUNCTIONS[function](name).cast(field.dataType).alias(name))
    rows = parts.groupBy(names[:key_count]).agg(*added)
    return rows.select(_titled([F.col(name) for name in names], target))


def _titled(columns: Sequence[Column], target: spark_types.StructType) -> list[Column]:
    """Return columns under the names that a query gives them, with the metadata of CHAR columns."""
    return [
        column.alias(field.name, metadata=field.metadata)
        for column, field in zip(columns, target, strict=True)
    ]
