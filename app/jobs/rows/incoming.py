"""Incoming rows: read from files, and fitted to the columns of a table.

Spark casts a column to the table's type if that keeps every value: numbers and decimals to wider ones,
nothing else. CHAR values are padded with blanks to their length, as Spark and Flink pad what they write.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from app.errors import RequestError
from app.jobs.rows.target import Target
from app.types import DataType, TypeRoot, type_json

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

ORDER: Final = "place"
"""Column of the order of rows, int64."""
KIND: Final = "kind"
"""Column of the kinds of rows, numbered as in :data:`KINDS`."""
KINDS: Final = {"+I": 0, "-U": 1, "+U": 2, "-D": 3}
"""Texts of row kinds, and the engine's numbers for them."""

_TYPED_FORMATS: Final = ("parquet", "orc", "avro")
_INTEGERS: Final = ("tinyint", "smallint", "int", "bigint")
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}


def read_rows(
    spark: SparkSession,
    target: Target,
    paths: Sequence[str],
    *,
    data_format: str = "parquet",
    options: Mapping[str, str] | None = None,
    kind_column: str | None = None,
) -> DataFrame:
    """Read rows from files with Spark.

    Files without types, such as CSV and JSON, are read in the table's types. A value of another type fails
    the job. Columns of CSV are found by the header, which must be equal in all files. Without a header
    they are found by position.
    """
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an extra
    from pyspark.sql.types import StringType, StructField, StructType  # noqa: PLC0415 - an extra

    # With enforceSchema Spark would match CSV columns by position even if there is a header.
    given = {"mode": "FAILFAST", "enforceSchema": "false", **(options or {})}
    reader = spark.read.format(data_format).options(**given)
    try:
        if data_format.lower() not in _TYPED_FORMATS:
            fields = {field.name: field for field in spark_schema(target)}
            if kind_column is not None:
                fields[kind_column] = StructField(kind_column, StringType())
            names = list(fields)
            if data_format.lower() == "csv" and _has_header(given):
                names = reader.load(list(paths)).columns
            reader = reader.schema(
                StructType([fields.get(name, StructField(name, StringType())) for name in names])
            )
        return reader.load(list(paths))
    except PySparkException as error:
        raise RequestError(f"Spark does not read the rows: {str(error).partition(chr(10))[0]}") from error


def _has_header(options: Mapping[str, str]) -> bool:
    return any(name.lower() == "header" and value.lower() == "true" for name, value in options.items())


def spark_schema(target: Target) -> StructType:
    """Return columns of the table in Spark's types."""
    from pyspark.sql.types import StructField, StructType  # noqa: PLC0415 - an extra

    from paimon_index.spark.column_types import spark_type  # noqa: PLC0415 - an extra

    columns = target.schema.fields
    # The client takes types as JSON and declares no type for it.
    written: list[Any] = [type_json(column.type) for column in columns]
    return StructType(
        [
            StructField(column.name, spark_type(data_type))
            for column, data_type in zip(columns, written, strict=True)
        ]
    )


def fitted(rows: DataFrame, target: Target, kind_column: str | None = None) -> DataFrame:
    """Select rows in the table's columns and types, named by position: ``c0``, ``c1``, ...

    ``rows``: exactly the columns of the table, in any order. ``kind_column``: a further column of strings,
    ``+I``, ``-U``, ``+U`` or ``-D``. Return these columns, :data:`ORDER` and, with kinds, :data:`KIND`.
    """
    from pyspark.sql import functions  # noqa: PLC0415 - an extra
    from pyspark.sql.types import StringType  # noqa: PLC0415 - an extra

    given = {field.name: field.dataType for field in rows.schema}
    if len(given) < len(rows.columns):
        raise RequestError(f"two columns of the rows have one name: {', '.join(rows.columns)}")
    names = [column.name for column in target.schema.fields]
    extra = [] if kind_column is None else [kind_column]
    if missing := [name for name in (*names, *extra) if name not in given]:
        raise RequestError(f"the rows lack column {missing[0]!r}: they have {', '.join(given)}")
    if unknown := [name for name in given if name not in (*names, *extra)]:
        raise RequestError(f"table {target.name} has no column {unknown[0]!r}: it has {', '.join(names)}")
    columns: list[Column] = []
    for at, (column, table_field) in enumerate(zip(target.schema.fields, spark_schema(target), strict=True)):
        given_type = given[column.name]
        if not _keeps_values(given_type.simpleString(), table_field.dataType.simpleString()):
            raise RequestError(
                f"column {column.name!r} is {column.type}, and {given_type.simpleString()} does not fit it: "
                f"cast the rows to {table_field.dataType.simpleString()}"
            )
        value = functions.col(quoted(column.name)).cast(table_field.dataType)
        columns.append(padded(value, column.type).alias(f"c{at}"))
    columns.append(functions.monotonically_increasing_id().alias(ORDER))
    if kind_column is not None:
        if not isinstance(given[kind_column], StringType):
            raise RequestError(f"column {kind_column!r} must hold strings: +I, -U, +U or -D")
        columns.append(functions.col(quoted(kind_column)).alias(KIND))
    return rows.select(*columns)


def _keeps_values(given: str, target: str) -> bool:
    """Return True if Spark's cast between two types, in Spark's spelling, keeps every value."""
    if given in (target, "void"):
        return True
    if given in _INTEGERS and target in _INTEGERS:
        return _INTEGERS.index(given) <= _INTEGERS.index(target)
    if target.startswith("decimal("):
        digits, scale = _decimal(target)
        if given in _DIGITS:
            return digits - scale >= _DIGITS[given]
        if given.startswith("decimal("):
            had, had_scale = _decimal(given)
            return scale >= had_scale and digits - scale >= had - had_scale
    return (given, target) == ("float", "double")


def _decimal(text: str) -> tuple[int, int]:
    digits, _, scale = text.removeprefix("decimal(").removesuffix(")").partition(",")
    return int(digits), int(scale)


def padded(value: Column, data_type: DataType) -> Column:
    """Pad CHAR values with blanks to their length, as Spark and Flink do when they write."""
    from pyspark.sql import functions  # noqa: PLC0415 - an extra

    if data_type.root is not TypeRoot.CHAR:
        return value
    length = data_type.precision
    return functions.when(functions.length(value) < length, functions.rpad(value, length, " ")).otherwise(
        value
    )


def quoted(name: str) -> str:
    """Quote a column's name for Spark."""
    return "`" + name.replace("`", "``") + "`"
