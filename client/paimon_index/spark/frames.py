"""The rows of a scan as a DataFrame: every file in its own schema, then cast, merged and united.

A column is found in a file by its field id, through the schema of the file. Files are read with the names and
types of that schema, so filters that Spark pushes down name the file's real columns.
"""

from __future__ import annotations

from functools import cache, reduce
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JJavaError
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.sql.types import ArrayType, ByteType, LongType, MapType, StructField, StructType

from paimon_index.spark.column_types import char_length, is_cut_in_spark, timestamp_digits
from paimon_index.spark.known_files import known_files
from paimon_index.spark.refusals import check_change, check_scan, type_of
from paimon_index.spark.row_tasks import row_tasks, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

    from paimon_index.catalog import SchemaColumn
    from paimon_index.spark.questions import Scan
    from paimon_index.spark.store_access import StoreAccess

Reader: TypeAlias = Literal["vectorised", "rows"]

SEQUENCE: Final = "_SEQUENCE_NUMBER"
KIND: Final = "_VALUE_KIND"
_ADDED: Final = (0, 2)
"""Kinds of live rows, inserted and updated; other kinds delete their key."""


class Frames:
    """Makes a DataFrame of the named columns of a scan.

    Raises UnsupportedTableError if a file, column or merge would not be read exactly.
    """

    def __init__(self, spark: SparkSession, scan: Scan, names: Collection[str], access: StoreAccess) -> None:
        check_scan(scan)
        self._spark = spark
        self._access = access
        self._scan = scan
        is_merging = pc.any(pc.invert(scan.files.column("raw_convertible"))).as_py() or False
        keys = {*scan.schema.primary_keys, *scan.schema.partition_keys} if is_merging else set()
        self._keys = [field.name for field in scan.schema.fields if field.name in keys]
        self._names = names
        self._fields = [field for field in scan.schema.fields if field.name in names or field.name in keys]

    def rows(self) -> DataFrame:
        """Return all rows, with the requested columns in the schema's order.

        CHAR is padded as Spark pads it.
        """
        plain: list[DataFrame] = []
        merging: list[DataFrame] = []
        for reader, schema_id, file_format, is_plain, files in self.groups():
            into = plain if is_plain else merging
            into.append(self._read(reader, schema_id, file_format, files, with_kind=not is_plain))
        if merging:
            plain.append(self._merged(_united(merging)))
        rows = _united(plain) if plain else self._none()
        output = [field for field in self._fields if field.name in self._names]
        if output == self._fields and all(char_length(field.type) is None for field in output):
            return rows  # a projection costs calls of Java for each column
        return rows.select([_padded(field) for field in output])

    def groups(self) -> Iterator[tuple[Reader, int, str, bool, pa.Table]]:
        """Yield groups of files: reader, schema, format, true if no merge is needed, and the files."""
        files = self._scan.files
        is_rows = pa.array([self._reader(*each) == "rows" for each in _each(files, *_DECIDING)], pa.bool_())
        keyed = files.append_column("by_rows", is_rows)
        keys = ["by_rows", "schema_id", "format", "raw_convertible"]
        for group in keyed.group_by(keys, use_threads=False).aggregate([]).to_pylist():
            mask = reduce(pc.and_, (pc.equal(keyed.column(key), group[key]) for key in keys))
            reader: Reader = "rows" if group["by_rows"] else "vectorised"
            yield reader, group["schema_id"], group["format"], group["raw_convertible"], keyed.filter(mask)

    def _reader(self, name: str, uri: str, schema_id: int, file_format: str) -> Reader:
        if not self._scan.are_deleted or name in self._scan.rows or name[:1] in ("_", "."):
            return "rows"  # Spark hides files of such names
        scheme = self._hadoop_uri(uri).partition(":")[0]
        is_readable = self._spark_reads(schema_id, file_format) and self._spark_opens(scheme)
        return "vectorised" if is_readable else "rows"

    @cache  # noqa: B019 - lives as long as one read_table
    def _spark_opens(self, scheme: str) -> bool:
        """Return True if Hadoop has the classes of a store."""
        # For S3 Hadoop needs hadoop-aws; pyarrow, which the other reader uses, has drivers of its own.
        gateway = self._spark._jvm._gateway_client  # noqa: SLF001
        try:
            JavaClass("org.apache.hadoop.fs.FileSystem", gateway).getFileSystemClass(
                scheme,
                self._spark._jsc.hadoopConfiguration(),  # noqa: SLF001
            )
        except Py4JJavaError:
            return False
        return True

    @cache  # noqa: B019 - lives as long as one read_table
    def _spark_reads(self, schema_id: int, file_format: str) -> bool:
        # Spark reads INT96 of Parquet as instants only, ignores zones of ORC's timestamps, and has no Avro.
        ids = {field.id for field in self._fields}
        fields = self._scan.file_schemas[schema_id].fields
        if file_format == "avro":
            return False
        if file_format == "orc":
            return all(timestamp_digits(field.type) < 0 for field in fields)
        return all(not is_cut_in_spark(field.type) for field in fields if field.id in ids)

    def _read(
        self, reader: Reader, schema_id: int, file_format: str, files: pa.Table, *, with_kind: bool
    ) -> DataFrame:
        in_file = {field.id: field for field in self._scan.file_schemas[schema_id].fields}
        old = [in_file.get(field.id) for field in self._fields]
        fields_in_file = [StructField(field.name, self._type(field)) for field in old if field is not None]
        if with_kind:
            fields_in_file += [StructField(SEQUENCE, LongType()), StructField(KIND, ByteType())]
        if not fields_in_file:  # the rows still count
            any_field = next(iter(in_file.values()))
            fields_in_file.append(StructField(any_field.name, self._type(any_field)))
        schema = StructType(fields_in_file)
        if reader == "rows":
            stores = self._access.settings(files.column("path").to_pylist())
            frame = row_tasks(self._spark, list(rows_of(self._scan, files)), schema, stores)
        else:
            sizes = files.column("file_size").to_pylist()
            uris = [self._hadoop_uri(uri) for uri in files.column("path").to_pylist()]
            frame = known_files(self._spark, file_format, list(zip(uris, sizes, strict=True)), schema)
        pairs = list(zip(self._fields, old, strict=True))
        if all(was is not None and (was.name, was.type) == (now.name, now.type) for now, was in pairs):
            return frame
        version = [F.col(SEQUENCE), F.col(KIND)] if with_kind else []
        return frame.select([self._column(now, was) for now, was in pairs] + version)

    def _column(self, field: SchemaColumn, old: SchemaColumn | None) -> Column:
        target = self._type(field)
        if old is None:
            return F.lit(None).cast(target).alias(field.name)
        check_change(self._scan.table, old, field)
        return _converted(F.col(quoted(old.name)), self._type(old), target).alias(field.name)

    def _type(self, field: SchemaColumn) -> DataType:
        return type_of(self._scan.table, field)

    def _merged(self, versions: DataFrame) -> DataFrame:
        """Return the newest row of each key, or with first-row the oldest, without deleted keys."""
        is_first = self._scan.schema.options.get("merge-engine") == "first-row"
        value_names = [field.name for field in self._fields if field.name not in self._keys]
        values = F.struct(*(F.col(quoted(name)) for name in (*value_names, KIND)))
        choose = F.min_by if is_first else F.max_by
        grouped = versions.groupBy([F.col(quoted(name)) for name in self._keys])
        chosen = grouped.agg(choose(values, F.col(SEQUENCE)).alias(_CHOSEN))
        live = chosen.where(F.col(f"{_CHOSEN}.{KIND}").isin(*_ADDED))
        return live.select(
            [
                F.col(quoted(field.name))
                if field.name in self._keys
                else F.col(f"{_CHOSEN}.{quoted(field.name)}").alias(field.name)
                for field in self._fields
            ]
        )

    def _none(self) -> DataFrame:
        columns = [F.lit(None).cast(self._type(field)).alias(field.name) for field in self._fields]
        return self._spark.range(0).select(columns)

    def _hadoop_uri(self, uri: str) -> str:
        """Return Hadoop's URI of a file: s3 becomes s3a, unless the session has a filesystem for s3."""
        if not uri.startswith("s3:") or self._has_own_s3():
            return uri
        return "s3a:" + uri.removeprefix("s3:")

    @cache  # noqa: B019 - lives as long as one read_table
    def _has_own_s3(self) -> bool:
        return bool(self._spark._jsc.hadoopConfiguration().get("fs.s3.impl"))  # noqa: SLF001


_CHOSEN: Final = "_chosen"
_DECIDING: Final = ("file_name", "path", "schema_id", "format")


def _padded(field: SchemaColumn) -> Column:
    """Return a CHAR column padded as Spark pads it, with metadata that makes Spark pad literals."""
    column, length = F.col(quoted(field.name)), char_length(field.type)
    if length is None:
        return column
    padded = F.when(F.length(column) < length, F.rpad(column, length, " ")).otherwise(column)
    return padded.alias(field.name, metadata={"__CHAR_VARCHAR_TYPE_STRING": f"char({length})"})


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda united, frame: united.unionAll(frame), frames)


def _each(files: pa.Table, *names: str) -> Iterator[tuple[Any, ...]]:
    return zip(*(files.column(name).to_pylist() for name in names), strict=True)


def quoted(name: str) -> str:
    """Quote a name for Spark, dots included."""
    return "`" + name.replace("`", "``") + "`"


def _converted(column: Column, old: DataType, target: DataType) -> Column:
    """Cast a file's values to the table's type. Added fields of rows are null."""
    match old, target:
        case _ if old == target:
            return column
        case StructType(), StructType():
            fields = [
                _converted(column.getField(field.name), old[field.name].dataType, field.dataType)
                if field.name in old.names
                else F.lit(None).cast(field.dataType)
                for field in target
            ]
            named = [each.alias(field.name) for each, field in zip(fields, target, strict=True)]
            return F.when(column.isNotNull(), F.struct(*named))
        case ArrayType(), ArrayType():
            return F.transform(
                column, lambda element: _converted(element, old.elementType, target.elementType)
            )
        case MapType(), MapType():
            return F.transform_values(
                column, lambda _, value: _converted(value, old.valueType, target.valueType)
            )
    return column.cast(target)
