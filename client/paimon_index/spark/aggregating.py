"""``aggregate``: counts, smallest and largest values and sums of a table, of which few files are read.

The service answers what statistics and indexes settle, and names the files that leave the rest open. Only
these are read; what Spark computes of them and what is settled are partial results of one aggregation.
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
from paimon_index.spark.column_types import SimpleType, char_length, timestamp_digits
from paimon_index.spark.frames import quoted
from paimon_index.spark.questions import PythonShare, ask, needed, other_meaning, resolved
from paimon_index.spark.reading import matching_rows, read_table
from paimon_index.spark.refusals import READERS, check_session, check_session_options, check_word
from paimon_index.spark.session_time import zone_of_session
from paimon_index.spark.store_access import StoreAccess

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from paimon_index.catalog import Schema, SchemaColumn
    from paimon_index.options import AggregateFunction, VersionOptions
    from paimon_index.results import AggregateAnswer
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
"""The service answers no more."""
_MICROSECONDS: Final = 6
_DIGITS_THAT_SUMS_HOLD: Final = 28
"""A sum has ten digits more, and no DECIMAL has more than 38."""
_UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"
"""Stands in answers for bytes that are no UTF-8."""


def aggregate(  # noqa: PLR0913 - each is a part of one question
    spark: SparkSession,
    url: str | Sequence[str],
    table: str,
    *,
    aggregates: Sequence[AggregateFunction] = (_ROWS,),
    group_by: Sequence[str] = (),
    where: str | None = None,
    snapshot_id: int | None = None,
    tag: str | None = None,
    branch: str | None = None,
    token: str | None = None,
    reader: Literal["auto", "rows"] = "auto",
    on_unavailable: Literal["error", "scan"] = "error",
    deadline_seconds: float = 30.0,
) -> DataFrame:
    """Aggregates of a Paimon table, from indexes and statistics as far as these tell them.

    The columns are those of ``SELECT group_by, aggregates FROM table WHERE where GROUP BY group_by``. What
    the service leaves open is read: the files that it names, or all files that the condition leaves
    where the parts would not add up, and where the service refuses or does not answer.

    Args:
        spark: a classic session (not Spark Connect) of Spark 4.
        url: base URL of the service, or several.
        table: ``warehouse.database.table``, the warehouse as the service calls it.
        aggregates: functions and their columns, as the client takes them: ``count``, which needs no column,
            ``count_distinct``, ``min``, ``max`` and ``sum``. The number of rows by default.
        group_by: names of columns; indexes tell counts by one column.
        where: a condition, as after WHERE.
        snapshot_id: of the version; the latest by default.
        tag: of the version, instead of its snapshot.
        branch: the main one by default.
        token: the secret for the service; it stays in the driver.
        reader: as of ``read_table``, for the files that are read.
        on_unavailable: as of ``read_table``.
        deadline_seconds: for the answer, and then for the plan of the files that are read.

    Raises:
        ServiceError, UnavailableError, UnsupportedSessionError, UnsupportedTableError: as ``read_table``.
        TypeError: ``where`` is no text, or ``group_by`` no list.
        ValueError: a column or function is unknown, or there is no aggregate.
    """
    check_session(spark)
    check_word("reader", reader, READERS)
    _check_aggregates(aggregates)
    if isinstance(group_by, str):
        raise TypeError(f"group_by is a list of names, such as [{group_by!r}], found a text")
    check_session_options(spark, TableName.parse(table))
    version: VersionOptions = {"snapshot_id": snapshot_id, "tag": tag, "branch": branch}
    if where is None or _is_text_of_service(spark, where):
        access, zone = StoreAccess(spark), zone_of_session(spark)
        try:
            with Client(url, token=token, deadline_seconds=deadline_seconds) as client:
                answer = client.aggregate(
                    table,
                    aggregates=aggregates,
                    group_by=group_by,
                    filter=where,
                    top=_MOST_GROUPS,
                    time_zone=zone,
                    **version,
                )
                scan = ask(
                    client,
                    table,
                    where,
                    files=answer.open_files,
                    time_zone=zone,
                    version=version if tag is not None else {**version, "snapshot_id": answer.snapshot_id},
                    reader=reader,
                    python_share=PythonShare.of(spark, access),
                )
        except PaimonIndexError as error:
            warnings.warn(f"all files that the condition leaves are read: {error}", stacklevel=2)
        else:
            if _adds_up(answer, scan, aggregates, group_by):
                wanted = [resolved(scan.schema, name) for name in _names(aggregates, group_by)]
                names = needed(scan.schema, where, wanted)
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
    """The columns that matter, as the caller writes them."""
    return [*group_by, *(name for each in aggregates if (name := each.get("column")) is not None)]


def _is_text_of_service(spark: SparkSession, where: object) -> bool:
    """Whether the service takes a condition for what the session does."""
    return isinstance(where, str) and other_meaning(spark, where) is None


def _adds_up(
    answer: AggregateAnswer,
    scan: Scan,
    aggregates: Sequence[AggregateFunction],
    group_by: Sequence[str],
) -> bool:
    """Whether what is settled is all that open files do not give, in values that Spark has, too."""
    facts = scan.facts
    if facts.snapshot_id != answer.snapshot_id or facts.summary.files_total != len(answer.open_files):
        return False  # the table was made anew meanwhile, or files of one name are settled and open
    if len(answer.groups) < answer.groups_total:
        return False
    if answer.open_files and not all(_has_partial_results(each, scan.schema) for each in aggregates):
        return False
    valued = [each for each in aggregates if each["function"] != "count"]
    for field in _fields(scan.schema, _names(valued, group_by)):
        if timestamp_digits(field.type) > _MICROSECONDS:
            return False  # Spark cuts them
    keys = _keys(answer.groups, _fields(scan.schema, group_by))
    if len(set(keys)) < len(keys):
        return False  # groups that Spark holds for one
    settled = (value for group in answer.groups for value in _values(group))
    return not any(isinstance(value, str) and _UNREADABLE in value for value in settled)


def _has_partial_results(asked: AggregateFunction, schema: Schema) -> bool:
    """Whether the aggregate of all rows follows from those of their parts."""
    if asked["function"] != "sum":
        return True
    # A sum that overflows is NULL without spark.sql.ansi.enabled, as that of no values is.
    [field] = _fields(schema, _names([asked], ()))
    simple = SimpleType.parse(str(field.type))
    return simple.root != "DECIMAL" or simple.size <= _DIGITS_THAT_SUMS_HOLD


def _fields(schema: Schema, names: Sequence[str]) -> list[SchemaColumn]:
    by_name = {field.name: field for field in schema.fields}
    return [by_name[resolved(schema, name)] for name in names]


def _keys(groups: Sequence[Any], columns: Sequence[SchemaColumn]) -> list[tuple[str | None, ...]]:
    """The keys of groups of an answer, as Spark has them."""
    return [
        tuple(_text(group.key[column.name], char_length(column.type) or 0) for column in columns)
        for group in groups
    ]


def _values(group: Any) -> list[Any]:
    return [*group.key.values(), *(each.settled for each in group.values)]


def _computed(rows: DataFrame, aggregates: Sequence[AggregateFunction], group_by: Sequence[str]) -> DataFrame:
    """What SQL computes of rows."""
    wanted = []
    for each in aggregates:
        column = each.get("column")
        wanted.append(_FUNCTIONS[each["function"]]("*" if column is None else F.col(quoted(column))))
    return rows.groupBy([F.col(quoted(name)) for name in group_by]).agg(*wanted)


def _settled(
    spark: SparkSession,
    answer: AggregateAnswer,
    aggregates: Sequence[AggregateFunction],
    group_by: Sequence[str],
    schema: Schema,
    wanted: spark_types.StructType,
) -> DataFrame:
    """What an answer tells of each group, in columns as Spark computes them."""
    keys = _fields(schema, group_by)
    groups = [group for group in answer.groups if group.rows or not keys]
    columns = [list(values) for values in zip(*_keys(groups, keys), strict=True)] or [[] for _ in keys]
    for at, each in enumerate(aggregates):
        is_value = each["function"] in ("min", "max")
        lengths = [char_length(field.type) or 0 for field in _fields(schema, _names([each], ())) if is_value]
        columns += [[_text(group.values[at].settled, *lengths) for group in groups]]
    names = [f"_{at}" for at in range(len(wanted))]
    texts = spark.createDataFrame(pa.table([pa.array(each, pa.string()) for each in columns], names))
    values = [
        _of_text(F.col(name), field.dataType, is_key=at < len(keys))
        for at, (name, field) in enumerate(zip(names, wanted, strict=True))
    ]
    return texts.select(_titled(values, wanted))


def _text(value: Any, length: int = 0) -> str | None:
    """A value in the form that Spark casts to its type; texts are padded, as those of CHAR are."""
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
    """The aggregates of groups whose rows are in two parts."""
    wanted = opened.schema
    names = [f"_{at}" for at in range(len(wanted))]
    parts = opened.toDF(*names).unionAll(settled.toDF(*names))
    added: list[Column] = []
    for name, each, field in zip(names[key_count:], aggregates, wanted[key_count:], strict=True):
        function = "sum" if each["function"] == "count" else each["function"]
        # The sum of sums of decimals has more digits.
        added.append(_FUNCTIONS[function](name).cast(field.dataType).alias(name))
    rows = parts.groupBy(names[:key_count]).agg(*added)
    return rows.select(_titled([F.col(name) for name in names], wanted))


def _titled(columns: Sequence[Column], wanted: spark_types.StructType) -> list[Column]:
    """Columns under the names that a query gives them; CHAR stays marked, so that conditions on it pad."""
    return [
        column.alias(field.name, metadata=field.metadata)
        for column, field in zip(columns, wanted, strict=True)
    ]
