"""Lists of keys, such as those of a join's small side: a row must have one key of each list.

The service receives the lists and skips files by their indexes. The rows are then joined with the lists
(``LEFT SEMI``), so that the result does not depend on the indexes. A list that is too long for a request is
only joined.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql import types as spark_types
from pyspark.sql.pandas.types import from_arrow_type

from paimon_index.spark.column_types import char_length, is_cut_in_spark, spark_type
from paimon_index.spark.frames import quoted
from paimon_index.spark.questions import resolved

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from paimon_index.catalog import Schema
    from paimon_index.client import Client

Keys: TypeAlias = "Sequence[Any] | pa.Array | pa.ChunkedArray | DataFrame"
"""Keys of one column: Python values, an Arrow array, or a DataFrame of one column."""

_KEY: Final = "_paimon_index_key"


class KeyLists:
    """The lists of one read: keys by the name of their column.

    Raises ValueError if keys are not of one type, or a DataFrame has not exactly one column. Raises TypeError
    if the lists have no names.
    """

    def __init__(self, lists: Mapping[str, Keys]) -> None:
        if not isinstance(lists, Mapping):
            raise TypeError(f"in_lists has keys by column, {{'id': [1, 2]}}, found a {type(lists).__name__}")
        self._arrays: dict[str, pa.ChunkedArray] = {}
        self._frames: dict[str, DataFrame] = {}
        for name, keys in lists.items():
            if not isinstance(keys, DataFrame):
                self._arrays[name] = _array(name, keys)
            elif len(keys.columns) == 1:
                self._frames[name] = keys.toDF(_KEY).where(F.col(_KEY).isNotNull())
            else:
                raise ValueError(f"keys of {name} are a DataFrame of {len(keys.columns)} columns: select one")
        self.columns = frozenset(lists)

    def to_send(self, client: Client) -> dict[str, pa.ChunkedArray | list[Any]] | None:
        """Return the lists to send: the shortest first, up to the service's limit of values.

        DataFrames are computed here. Short results are kept, so that they are not computed again.
        """
        if not self.columns:
            return None
        capacity = int(client.config().limits["filter_literals"])
        for name, frame in list(self._frames.items()):
            # One value beyond the limit shows that there are too many. Most small tables have each key once,
            # so the shuffle of distinct() comes second.
            for rows in (frame, frame.distinct()):
                values = rows.limit(capacity + 1).toArrow().column(0)
                if len(values) <= capacity:
                    self._arrays[name] = _array(name, values)
                    del self._frames[name]
                    break
        sent: dict[str, pa.ChunkedArray | list[Any]] = {}
        for name, values in sorted(self._arrays.items(), key=lambda each: len(each[1])):
            if len(values) <= capacity:
                sent[name] = values if len(values) else []
                capacity -= len(values)
        unsent = ", ".join(sorted(self.columns - sent.keys()))
        if unsent:
            warnings.warn(
                f"more keys than the service takes (limits.filter_literals): no file is skipped by {unsent}",
                stacklevel=4,
            )
        return sent

    def check(self, schema: Schema) -> None:
        """Raise ValueError if Spark might compare keys with a column differently from the service."""
        types = {field.name: field.type for field in schema.fields}
        for name in self.columns:
            written = types[resolved(schema, name)]
            if char_length(written) is not None or is_cut_in_spark(written):
                raise ValueError(
                    f"column {name} is {written}, whose values Spark pads or rounds: compare it in where, "
                    f"not by in_lists"
                )
            _check_kinds(name, spark_type(written), self._type(name))

    def joined(self, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """Return the rows that have one key of each list."""
        matching = rows
        for name in sorted(self.columns):
            keys = self._frames.get(name)
            if keys is None:
                if isinstance(self._type(name), spark_types.NullType):
                    return rows.where(F.lit(False))  # noqa: FBT003 - Spark's
                schema = spark_types.StructType([spark_types.StructField(_KEY, self._type(name))])
                table = pa.table({_KEY: self._arrays[name]})
                keys = F.broadcast(spark.createDataFrame(table, schema))
            column = matching[quoted(name)]
            matching = matching.join(keys, column == keys[_KEY], "left_semi")
        return matching

    def _type(self, name: str) -> spark_types.DataType:
        if name in self._frames:
            return self._frames[name].schema[0].dataType
        return _spark_type(self._arrays[name].type)


def _array(name: str, keys: Sequence[Any] | pa.Array | pa.ChunkedArray) -> pa.ChunkedArray:
    """Return distinct values without null, which no row equals."""
    try:
        values = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys)
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", values.type.tz))
        values = values.unique().drop_null()
        _spark_type(values.type)
    except (pa.ArrowException, TypeError) as error:
        raise ValueError(f"keys of {name} are not values of one type: {error}") from error
    return pa.chunked_array([values])


def _spark_type(arrow: pa.DataType) -> spark_types.DataType:
    """Return Spark's type of keys. Times without a zone stay so, whatever the session prefers."""
    is_local = pa.types.is_timestamp(arrow) and arrow.tz is None
    return from_arrow_type(arrow, prefer_timestamp_ntz=is_local)


def _check_kinds(name: str, column: spark_types.DataType, keys: spark_types.DataType) -> None:
    """Raise ValueError if comparing needs a cast that could change a value."""
    whole = spark_types.IntegralType
    is_number = isinstance(keys, whole) and isinstance(column, (whole, spark_types.DecimalType))
    is_none = isinstance(keys, spark_types.NullType)
    if not (is_number or is_none or type(keys) is type(column)):
        raise ValueError(
            f"keys of {name} are {keys.simpleString()}, and the column is {column.simpleString()}: cast them"
        )
