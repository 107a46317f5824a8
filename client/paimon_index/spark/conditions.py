"""Conditions of a session as the service's predicates, read from the plan that Spark makes of them.

The session parses, analyses and optimizes a condition over an empty frame with the table's columns. Names,
casts, constants, time zones, settings and functions of the session are resolved by then, so the rest is a
tree of tests of columns against values.

================================================  ===========================================================
expression of Spark                               predicate
================================================  ===========================================================
``And``, ``Or``                                   the compound
``EqualTo``, ``LessThan`` and so on, a column     the comparison, turned round if the literal comes first
and a literal
``EqualNullSafe``                                 the comparison, NULL decided apart
``In``, ``InSet``                                 the list
``IsNull``, ``IsNotNull``, a boolean column       the test
``StartsWith``, ``EndsWith``, ``Contains``,       the test of text
``Like``
``Not``                                           the opposite test
any other                                         an unknown one, which every row may meet
================================================  ===========================================================

A timestamp of more than six digits is compared as Spark reads it, cut to microseconds.
"""

from __future__ import annotations

import json
import re
import warnings
from dataclasses import dataclass, field, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from py4j.java_gateway import JavaClass
from py4j.protocol import Py4JError
from pyspark.sql import Column, DataFrame
from pyspark.sql.types import StructField, StructType

from paimon_index.errors import UnsupportedTableError
from paimon_index.spark.column_types import SimpleType, char_length, is_cut_in_spark, spark_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from paimon_index.catalog import SchemaColumn
    from paimon_index.requests import TableName

Where: TypeAlias = "str | Column"
"""A condition: text as after WHERE, or an expression."""

_Json: TypeAlias = "dict[str, Any]"

_PACKAGES: Final = ("org.apache.spark.sql.catalyst", "org.apache.spark.sql.execution")
_BYTES: Final = ("BINARY", "VARBINARY", "BYTES")
_CHAR: Final = "__CHAR_VARCHAR_TYPE_STRING"
_OPPOSITE: Final = {
    "EQUAL": "NOT_EQUAL",
    "NOT_EQUAL": "EQUAL",
    "LESS_THAN": "GREATER_OR_EQUAL",
    "LESS_OR_EQUAL": "GREATER_THAN",
    "GREATER_THAN": "LESS_OR_EQUAL",
    "GREATER_OR_EQUAL": "LESS_THAN",
    "IN": "NOT_IN",
    "IS_NULL": "IS_NOT_NULL",
    "IS_NOT_NULL": "IS_NULL",
}
_TURNED: Final = {
    "EQUAL": "EQUAL",
    "LESS_THAN": "GREATER_THAN",
    "LESS_OR_EQUAL": "GREATER_OR_EQUAL",
    "GREATER_THAN": "LESS_THAN",
    "GREATER_OR_EQUAL": "LESS_OR_EQUAL",
}
_COMPARISONS: Final = {
    "EqualTo": "EQUAL",
    "LessThan": "LESS_THAN",
    "LessThanOrEqual": "LESS_OR_EQUAL",
    "GreaterThan": "GREATER_THAN",
    "GreaterThanOrEqual": "GREATER_OR_EQUAL",
}
_TEXT_TESTS: Final = {
    "StartsWith": "STARTS_WITH",
    "EndsWith": "ENDS_WITH",
    "Contains": "CONTAINS",
    "Like": "LIKE",
}
_SEPARATOR: Final = "\N{INFORMATION SEPARATOR FOUR}\N{NULL}\N{INFORMATION SEPARATOR FOUR}"
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_UNREADABLE: Final = "\N{REPLACEMENT CHARACTER}"
_SHOWN: Final = 200
# Each takes two calls of Java, some tenths of a millisecond.
_MOST_FETCHED: Final = 2_000


class _UndecidedError(Exception):
    """Spark compares something that the service does not know."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition. ``predicate`` is the service's JSON, None if no file can be skipped by it.

    ``names`` has the columns that it uses. None if they are unknown. ``fields`` are the columns it may use.
    """

    predicate: _Json | None
    names: frozenset[str] | None
    fields: Sequence[SchemaColumn] = ()


def read_condition(
    spark: SparkSession,
    fields: Sequence[SchemaColumn],
    where: Where,
    table: TableName,
    branch: str | None = None,
) -> Condition:
    """Read a condition on the columns of a table, as the session understands it.

    Raises Spark's AnalysisException or ParseException if it is not a condition on these columns.
    """
    rows = named(spark, _empty(spark, fields), table, branch, where).where(where)
    by_name = {field.name: field for field in fields}
    try:
        plans = rows._jdf.queryExecution()  # noqa: SLF001 - no public API
        names = _columns_of(json.loads(plans.analyzed().toJSON()))
        return Condition(_predicate(plans.optimizedPlan(), by_name), names, fields)
    except (Py4JError, ValueError, LookupError, RecursionError) as error:
        warnings.warn(
            f"all files are read, since the plan of the condition cannot be read: {error}", stacklevel=4
        )
        return Condition(None, None, fields)


def check_where(where: object) -> None:
    """Raise TypeError unless ``where`` is a condition or None."""
    if not isinstance(where, (str, Column, NoneType)):
        raise TypeError(
            f"where is a condition as text, as after WHERE, or an expression of Spark, found "
            f"{type(where).__name__}"
        )


def named(
    spark: SparkSession, rows: DataFrame, table: TableName, branch: str | None, where: Where | None
) -> DataFrame:
    """Give rows the name by which the condition qualifies columns, as a table has in a query."""
    text = "" if where is None else str(where)
    of_branch = f"{table.table}$branch_{branch}"
    name = of_branch if of_branch.lower() in text.lower() else table.table
    full = rf"(?:([^\s`.(]+)`?\s*\.\s*)?`?{re.escape(table.database)}`?\s*\.\s*`?{re.escape(name)}`?\s*\."
    match = re.search(full, text, re.IGNORECASE)
    if match is None:
        return rows.alias(name)
    gateway = spark._jvm._gateway_client  # noqa: SLF001 - an alias of several parts has no other door
    parts = [match[1] or table.warehouse, table.database]  # the service takes any catalog for its own
    qualifier = JavaClass("org.apache.spark.api.python.PythonUtils", gateway).toSeq(parts)
    plans = "org.apache.spark.sql.catalyst"
    identifier = JavaClass(f"{plans}.AliasIdentifier", gateway)
    plan = JavaClass(f"{plans}.plans.logical.SubqueryAlias", gateway)(
        identifier(name, qualifier),
        rows._jdf.logicalPlan(),  # noqa: SLF001 - no public API
    )
    frames = JavaClass("org.apache.spark.sql.classic.Dataset", gateway)
    return DataFrame(frames.ofRows(spark._jsparkSession, plan), spark)  # noqa: SLF001 - no public API


def _empty(spark: SparkSession, fields: Sequence[SchemaColumn]) -> DataFrame:
    """Return a frame without rows that Spark does not optimize away, unlike a local one."""
    columns = []
    for each in fields:
        try:
            data_type = spark_type(each.type)
        except UnsupportedTableError:
            continue  # a condition cannot name it
        length = char_length(each.type)
        metadata = None if length is None else {_CHAR: f"char({length})"}
        columns.append(StructField(each.name, data_type, metadata=metadata))
    session = spark._jsparkSession  # noqa: SLF001 - no public API
    schema = session.parseDataType(StructType(columns).json())
    rows = spark._jsc.emptyRDD()  # noqa: SLF001 - no public API
    return DataFrame(session.createDataFrame(rows, schema), spark)


def _columns_of(nodes: list[_Json]) -> frozenset[str] | None:
    """Return the columns that an analysed plan filters by. Return None if it has more than filters."""
    if any(node["num-children"] > 1 for node in nodes):
        return None
    expressions = [each for node in nodes for each in node.get("condition", ())]
    if any("Subquery" in each["class"] or "Exists" in each["class"] for each in expressions):
        return None
    return frozenset(each["name"] for each in expressions if _kind(each) == "AttributeReference")


def _predicate(plan: Any, fields: Mapping[str, SchemaColumn]) -> _Json | None:
    """Return the predicate of an optimized plan. Return None if every row may meet it."""
    nodes = json.loads(plan.toJSON())
    if any(node["num-children"] > 1 for node in nodes):
        return _unknown("a join that Spark makes of the condition")
    match _kind(nodes[-1]):
        case "LocalRelation":  # no row meets the condition
            return {"kind": "LEAF", "function": "FALSE"}
        case "LogicalRDD":
            columns = {each[0]["exprId"]["id"]: fields[each[0]["name"]] for each in nodes[-1]["output"]}
        case other:
            return _unknown(f"{other} of Spark's plan")
    parts: list[_Json] = []
    for node in nodes[:-1]:
        match _kind(node):
            case "Filter":
                parts.append(_Filter(node["condition"], plan.condition, columns).predicate(0))
            case "Project":
                pass
            case other:
                parts.append(_unknown(f"{other} of Spark's plan"))
        plan = plan.children().head()
    return _joined("AND", parts) if parts else None


@dataclass(slots=True)
class _Filter:
    """One condition: its expressions in the order of their tree, a node before its children.

    ``java`` gives Spark's own tree, for what the JSON lacks.
    """

    nodes: list[_Json]
    java: Callable[[], Any]
    columns: Mapping[int, SchemaColumn]
    _fetched: int = 0
    _ends: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        if any("Subquery" in node["class"] for node in self.nodes):
            raise ValueError("it has a subquery")
        # From the last node to the first, so that the ends of children are there.
        ends = [0] * len(self.nodes)
        for at in range(len(self.nodes) - 1, -1, -1):
            end = at + 1
            for _ in range(self.nodes[at]["num-children"]):
                end = ends[end]
            ends[at] = end
        self._ends = ends

    def predicate(self, at: int, *, is_negated: bool = False) -> _Json:
        """Return the predicate of an expression."""
        kind = _kind(self.nodes[at])
        if kind == "Not":
            return self.predicate(at + 1, is_negated=not is_negated)
        if kind in ("And", "Or"):
            is_and = (kind == "And") != is_negated
            parts = [self.predicate(each, is_negated=is_negated) for each in self._operands(at, kind)]
            return _joined("AND" if is_and else "OR", parts)
        try:
            return self._test(at, kind, is_negated=is_negated)
        except _UndecidedError:
            return _unknown(self._text(at))

    def _operands(self, at: int, kind: str) -> list[int]:
        """Return the operands of a chain of ``And`` or ``Or``, which may be thousands deep."""
        operands, pending = [], [at]
        while pending:
            each = pending.pop()
            if _kind(self.nodes[each]) == kind:
                pending += reversed(self._children(each))
            else:
                operands.append(each)
        return operands

    def _test(self, at: int, kind: str, *, is_negated: bool) -> _Json:
        children = self._children(at)
        match kind:
            case "AttributeReference":
                return _leaf(_opposite("EQUAL", is_negated), self._column(at), True)  # noqa: FBT003
            case "Literal":
                is_true = self.nodes[at]["value"] == ("false" if is_negated else "true")
                return {"kind": "LEAF", "function": "TRUE" if is_true else "FALSE"}
            case "IsNull" | "IsNotNull":
                function = _opposite("IS_NULL" if kind == "IsNull" else "IS_NOT_NULL", is_negated)
                return _leaf(function, self._column(children[0]))
            case "In" | "InSet":
                column = self._column(children[0])
                is_set = kind == "InSet"
                values = (
                    self._set(at, column) if is_set else [self._value(each, column) for each in children[1:]]
                )
                return _listed(_opposite("IN", is_negated), column, values)
            case "EqualNullSafe":
                return self._null_safe(*children, is_negated=is_negated)
            case _ if kind in _COMPARISONS:
                return self._comparison(_COMPARISONS[kind], *children, is_negated=is_negated)
            case _ if kind in _TEXT_TESTS and not is_negated:
                return self._text_test(at, kind, *children)
        raise _UndecidedError

    def _null_safe(self, left: int, right: int, *, is_negated: bool) -> _Json:
        at, value = (left, right) if self._is_column(left) else (right, left)
        column = self._column(at)
        if self._value(value, column) is None:
            return _leaf(_opposite("IS_NULL", is_negated), column)
        test = self._comparison("EQUAL", left, right, is_negated=is_negated)
        # NULL differs from a literal that is not NULL, so it meets the opposite test.
        return _joined("OR", [_leaf("IS_NULL", column), test]) if is_negated else test

    def _text_test(self, at: int, kind: str, left: int, right: int) -> _Json:
        if kind == "Like" and self._java(at).escapeChar() != "\\":
            raise _UndecidedError
        column = self._column(left)
        return _leaf(_TEXT_TESTS[kind], column, self._value(right, column))

    def _comparison(self, function: str, left: int, right: int, *, is_negated: bool) -> _Json:
        if not self._is_column(left):
            left, right, function = right, left, _TURNED[function]
        column = self._column(left)
        return _compared(_opposite(function, is_negated), column, self._value(right, column))

    def _children(self, at: int) -> list[int]:
        children, child = [], at + 1
        for _ in range(self.nodes[at]["num-children"]):
            children.append(child)
            child = self._ends[child]
        return children

    def _is_column(self, at: int) -> bool:
        return _kind(self.nodes[at]) in ("AttributeReference", "GetMapValue")

    def _column(self, at: int) -> SchemaColumn:
        node = self.nodes[at]
        if _kind(node) == "GetMapValue":
            return self._map_key(*self._children(at))
        if not self._is_column(at) or node["exprId"]["id"] not in self.columns:
            raise _UndecidedError
        return self.columns[node["exprId"]["id"]]

    def _map_key(self, at: int, key: int) -> SchemaColumn:
        """Return the column that stands for a key of a map from text."""
        column, text = self._column(at), self.nodes[key].get("value")
        is_literal = _kind(self.nodes[key]) == "Literal" and isinstance(text, str) and _UNREADABLE not in text
        if not isinstance(column.type, dict) or not is_literal:
            raise _UndecidedError
        if _root_of(column.type.get("key")) not in ("STRING", "VARCHAR"):
            raise _UndecidedError
        name = f"{column.name}[{text}]"
        if any(name.lower() == each.name.lower() for each in self.columns.values()):
            raise _UndecidedError  # the service takes it for that column
        return replace(column, name=name, type=column.type["value"])

    def _value(self, at: int, column: SchemaColumn) -> Any:
        node = self.nodes[at]
        if _kind(node) != "Literal":
            raise _UndecidedError
        text = node["value"]
        if text is None:
            return None
        root = _root(column)
        if root == "DATE":
            if not _DATE.fullmatch(text):
                raise _UndecidedError
            return text
        if root in ("TIMESTAMP_LTZ", *_BYTES):  # the JSON has a clock of the session, and no bytes
            return _value_of(self._java(at).value(), root)
        return _value_of(text, root)

    def _set(self, at: int, column: SchemaColumn) -> list[Any]:
        root = _root(column)
        if root in _BYTES:
            raise _UndecidedError
        values = self._java(at).hset()
        texts = values.mkString(_SEPARATOR).split(_SEPARATOR)
        if len(texts) != values.size():
            raise _UndecidedError
        nulls = [None] if values.contains(None) else []
        if nulls:
            texts.remove("null")
        return [
            _value_of(int(text), root) if root == "DATE" else _value_of(text, root) for text in texts
        ] + nulls

    def _java(self, at: int) -> Any:
        self._fetched += 1
        if self._fetched > _MOST_FETCHED:
            raise _UndecidedError
        return self.java().apply(at)

    def _text(self, at: int) -> str:
        try:
            return str(self._java(at).sql())
        except (_UndecidedError, Py4JError):
            return _kind(self.nodes[at])


def _kind(node: _Json) -> str:
    """Return the simple name of a class of Spark's own, and the full name of any other class."""
    package, _, name = str(node["class"]).rpartition(".")
    return name if package.startswith(_PACKAGES) else node["class"]


def _root(column: SchemaColumn) -> str:
    return _root_of(column.type)


def _root_of(written: Any) -> str:
    return SimpleType.parse(written).root if isinstance(written, str) else ""


def _value_of(value: Any, root: str) -> Any:
    """Return a value in the service's form: Spark's own one, or its text."""
    match root:
        case "BOOLEAN":
            return value == "true"
        case "TINYINT" | "SMALLINT" | "INT" | "BIGINT":
            return int(value)
        case "FLOAT" | "DOUBLE" | "DECIMAL":
            return value
        case "CHAR" | "VARCHAR" | "STRING" if _UNREADABLE not in value:
            return value
        case "DATE":
            return {"$days": value}
        case "TIMESTAMP" | "TIMESTAMP_LTZ":
            millis, micros = divmod(int(value), 1000)
            return {"$ms": millis, "$nanos": micros * 1000}
        case "BINARY" | "VARBINARY" | "BYTES":
            return {"$hex": bytes(value).hex()}
    raise _UndecidedError


def _opposite(function: str, is_negated: bool) -> str:  # noqa: FBT001
    return _OPPOSITE[function] if is_negated else function


def _listed(function: str, column: SchemaColumn, values: list[Any]) -> _Json:
    if is_cut_in_spark(column.type):
        tests = [_compared("EQUAL" if function == "IN" else "NOT_EQUAL", column, value) for value in values]
        return _joined("OR" if function == "IN" else "AND", tests)
    for value in values:
        _check_char(function, column, value)
    return _leaf(function, column, *values)


def _compared(function: str, column: SchemaColumn, value: Any) -> _Json:
    _check_char(function, column, value)
    if value is None or not is_cut_in_spark(column.type):
        return _leaf(function, column, value)
    last = {**value, "$nanos": value["$nanos"] + 999}
    match function:
        case "EQUAL":
            return _leaf("BETWEEN", column, value, last)
        case "NOT_EQUAL":
            return _leaf("NOT_BETWEEN", column, value, last)
        case "GREATER_THAN" | "LESS_OR_EQUAL":
            return _leaf(function, column, last)
    return _leaf(function, column, value)


def _check_char(function: str, column: SchemaColumn, value: Any) -> None:
    """Raise _UndecidedError where the session does not pad a literal to the column's length."""
    length = char_length(column.type)
    if (
        length is not None
        and function in ("EQUAL", "NOT_EQUAL", "IN", "NOT_IN")
        and len(value or "") < length
    ):
        raise _UndecidedError


def _leaf(function: str, column: SchemaColumn, *literals: Any) -> _Json:
    transform = {"name": "FIELD_REF", "fieldRef": {"name": column.name}}
    return {"kind": "LEAF", "function": function, "transform": transform, "literals": list(literals)}


def _unknown(text: str) -> _Json:
    return {"kind": "LEAF", "function": text[:_SHOWN], "transform": {"name": "UNKNOWN"}}


def _joined(function: str, parts: list[_Json]) -> _Json:
    return parts[0] if len(parts) == 1 else {"kind": "COMPOUND", "function": function, "children": parts}
