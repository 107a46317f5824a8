"""Older snapshots asked through Iceberg: a row is kept if it meets the filter in a schema that may be meant.

Columns of a small table are renamed, swapped, widened, dropped, and added under names that others had, before
and behind its only snapshot. A condition is drawn in the names of one schema, asked in one of the ways in
which clients ask, and held to the rows in each schema that the client may read by.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import reduce
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from app.api.http.strict_json import write_json
from app.errors import UnsupportedFormatError
from app.iceberg.catalog import IcebergCatalog
from app.iceberg.plan_tokens import PlanQuestion, write_filter
from app.planning.request.limits import Limits
from app.planning.request.requests import TableRef
from app.types import DataField, DataType, Json, TypeRoot, Value, parse_type
from app.types.civil_time import NANOS_PER_MICRO
from app.types.data_types import BINARY_ROOTS, FLOATING_ROOTS, STRING_ROOTS, TIMESTAMP_ROOTS
from app.types.values import integer_range, to_float32
from tests.proof.columns import NULL, Column, random_column
from tests.proof.conditions import TRUE, Condition, Joined, Single, random_condition
from tests.proof.making import Writer, name_of
from tests.proof.referee import WrongPlanError
from tests.proof.replicas import warehouse_of
from tests.proof.tables import File, RandomTable
from tests.tables import data_file, open_service

QUESTIONS: Final = 12
"""Of one table."""

_WIDER: Final = {"INT": "BIGINT", "FLOAT": "DOUBLE"}
"""Types that a column may get later, which Iceberg's clients read in older files."""
_TYPES: Final = (
    *("INT", "BIGINT", "FLOAT", "FLOAT", "STRING", "DATE", "DECIMAL(9, 2)", "BOOLEAN", "TIMESTAMP(6)"),
    *("BYTES", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
)
_NAMES: Final = ("a", "B", "c", "d", "e e", "é", "x1", "f", "g", "h")
_TESTS: Final = {
    "EQUAL": "eq",
    "NOT_EQUAL": "not-eq",
    "LESS_THAN": "lt",
    "LESS_OR_EQUAL": "lt-eq",
    "GREATER_THAN": "gt",
    "GREATER_OR_EQUAL": "gt-eq",
    "STARTS_WITH": "starts-with",
    "IS_NULL": "is-null",
    "IS_NOT_NULL": "not-null",
    "IN": "in",
    "NOT_IN": "not-in",
}
_FOOTER: Final = bytes.fromhex("292c00950200000700000050415231")
"""The end of a Parquet file with a column that has a field id, which is all that a plan may look at."""


class _InexpressibleError(Exception):
    """Iceberg has no such test, or a schema no column of that name that could be compared so."""


@dataclass(frozen=True, eq=False)
class History:
    """A table whose only snapshot is of an older schema.

    Attributes:
        table: with the field of each column in each schema that has it.
        snapshot_schema: of the snapshot.
    """

    table: RandomTable
    snapshot_schema: int

    def columns(self, schema: int) -> dict[str, tuple[int, Column]]:
        """Place and column of each name in a schema, each column as if there were no other schema."""
        return {
            field.name: (at, replace(column, fields=(field,)))
            for at, column in enumerate(self.table.columns)
            if (field := column.fields[schema]) is not None
        }


def random_history(rng: Random) -> History:
    schemas = rng.randint(2, 5)
    snapshot_schema = rng.randrange(schemas - 1)
    kinds = rng.sample(_TYPES, rng.randint(1, 3))
    names = _random_names(rng, schemas, rng.randint(2, 6))
    columns = []
    for number in range(len(names)):
        column = random_column(rng, number, "", [True], rng.choice(kinds), fixed=rng.random() < 0.5)
        wider = rng.randint(1, schemas + 1)
        fields = [
            None if name is None else DataField(number, name, _type_in(column, is_wider=schema >= wider))
            for schema, name in enumerate(names[number])
        ]
        columns.append(
            replace(
                column, fields=tuple(fields), stored=column.stored * schemas, codes=column.codes * schemas
            )
        )
    # Those of the latest schema come first.
    columns.sort(key=lambda column: column.fields[-1] is None)
    table = RandomTable(columns, schemas, (), (), (), {"bucket": "-1"}, engine=rng.random() < 0.5)
    for _ in range(rng.choice([1, 3, 8, 20])):
        schema = rng.randint(0, snapshot_schema)
        table.files.append(File(schema, (), 0, -1, _codes(rng, table, schema, rng.choice([1, 2, 5]))))
    table.manifests = [list(range(len(table.files)))]
    table.finish()
    return History(table, snapshot_schema)


def _type_in(column: Column, *, is_wider: bool) -> DataType:
    first = column.field.type
    return parse_type(_WIDER[first.text]) if is_wider and first.text in _WIDER else first


def _random_names(rng: Random, schemas: int, columns: int) -> list[list[str | None]]:
    """Return the name of each column in each schema: they come and go, and take each other's names."""
    found: list[list[str | None]] = [[None] * schemas for _ in range(columns + 3)]
    lives = [(0, schemas)] + [sorted(rng.choices(range(schemas + 1), k=2)) for _ in found[1:]]
    names: dict[int, str] = {}
    for schema in range(schemas):
        there = [number for number, (since, until) in enumerate(lives) if since <= schema < until]
        names = {number: name for number, name in names.items() if number in there}
        for number in there:
            free = [each for each in _NAMES[: columns + 3] if each not in names.values()]
            if number not in names or (free and rng.random() < 0.15):
                names[number] = rng.choice(free)
        swapped = rng.sample(there, rng.randint(0, min(3, len(there)))) if rng.random() < 0.5 else []
        names |= dict(zip(swapped, [names[number] for number in swapped[1:] + swapped[:1]], strict=True))
        for number, name in names.items():
            found[number][schema] = name
    return found


def _codes(rng: Random, table: RandomTable, schema: int, rows: int) -> NDArray[np.int16]:
    codes = np.zeros((rows, len(table.columns)), np.int16)
    for at, column in enumerate(table.columns):
        if column.fields[schema] is not None:
            few = rng.choices(column.codes[schema], k=2)
            codes[:, at] = rng.choices([*few, NULL] if rng.random() < 0.3 else few, k=rows)
    return codes


def check_time_travel(seed: str, root: Path, name: str) -> Counter[str]:
    """Make a table of a seed, and ask about its older snapshot.

    ``seed``: of table and conditions.
    ``root``: where the warehouses are.
    ``name``: of the table, which is not there yet.

    Returns:
        How many questions there were, and how much of the files was left out or proven by them.

    Raises WrongPlanError if a plan leaves a row out, or proves one that does not match.
    """
    rng = Random(f"{seed} time travel")
    history = random_history(rng)
    table, counts = history.table, Counter[str]()
    warehouse = warehouse_of(root, engine=table.engine)
    with closing(open_service(warehouse, engine_writes_only=table.engine)) as service:
        made = Writer.of(rng, table).write(warehouse, name, service)
        try:
            _be_of_schema(made.directory, history)
            catalog = IcebergCatalog(service, Limits(), 60_000)
            for _ in range(QUESTIONS):
                counts += _check(rng, history, catalog, made.ref)
        finally:
            shutil.rmtree(made.directory)
    return counts


def _be_of_schema(directory: Path, history: History) -> None:
    """Have the snapshot be of its schema, and give data files an end."""
    snapshot = directory / "snapshot" / "snapshot-1"
    document = json.loads(snapshot.read_text())
    snapshot.write_text(json.dumps({**document, "schemaId": history.snapshot_schema}))
    bucket = directory / "bucket-0"
    bucket.mkdir(exist_ok=True)
    for number, file in enumerate(history.table.files):
        content = b"PAR1".ljust(data_file().file_size - len(_FOOTER), b"\0") + _FOOTER
        (bucket / name_of(number, file)).write_bytes(content)


def _check(rng: Random, history: History, catalog: IcebergCatalog, ref: TableRef) -> Counter[str]:
    """One condition, asked in one way."""
    latest = history.table.schemas - 1
    at_snapshot: dict[str, Any] = {"snapshot_id": 1}
    asked, schemas = rng.choice(
        [
            (at_snapshot, range(history.snapshot_schema, latest + 1)),
            (at_snapshot, range(history.snapshot_schema, latest + 1)),
            ({**at_snapshot, "start_snapshot_id": 0}, range(history.snapshot_schema, latest + 1)),
            ({**at_snapshot, "use_snapshot_schema": True}, [history.snapshot_schema]),
            ({}, [latest]),
        ]
    )
    every = [history.columns(schema) for schema in schemas]
    condition, expression = _random_question(rng, rng.choice(every))
    case_sensitive = rng.random() < 0.7
    written = write_filter(expression if case_sensitive else _swapped(expression))
    question = PlanQuestion(filter=written, case_sensitive=case_sensitive, **asked)
    truths = []
    for columns in every:
        with suppress(_InexpressibleError):
            truths.append(_bound(condition, columns).truths(history.table.codes) == TRUE)
    try:
        answer = json.loads(write_json(catalog.plan(ref, question)))
        _hold(history.table, answer["file-scan-tasks"], truths)
    except UnsupportedFormatError:
        if question.start_snapshot_id is None:
            raise
        # Its commit removes files, too.
        return Counter()
    except Exception as error:
        error.add_note(f"{question}, schemas {list(schemas)}")
        raise
    tasks = answer["file-scan-tasks"]
    return Counter(
        {
            "questions": 1,
            "left out": len(history.table.files) - len(tasks),
            "proven": sum(task["residual-filter"] is True for task in tasks),
            "of more than one meaning": int(any((each != truths[0]).any() for each in truths)),
        }
    )


def _hold(table: RandomTable, tasks: Sequence[Any], truths: Sequence[NDArray[np.bool_]]) -> None:
    """Raise WrongPlanError unless tasks have each row that somebody takes, and prove what everybody does."""
    found = {task["data-file"]["file-path"].rpartition("/")[2]: task["residual-filter"] for task in tasks}
    for number, file in enumerate(table.files):
        name = name_of(number, file)
        rows = slice(int(table.starts[number]), int(table.starts[number + 1]))
        for taken in truths:
            if name not in found and taken[rows].any():
                raise WrongPlanError(f"lost {int(taken[rows].sum())} rows of {name} (schema {file.schema})")
            if found.get(name) is True and not taken[rows].all():
                raise WrongPlanError(f"{name} (schema {file.schema}) has rows that do not match")


def _random_question(
    rng: Random, columns: Mapping[str, tuple[int, Column]]
) -> tuple[Condition, dict[str, Any]]:
    """Return a condition in the names of a schema, and as Iceberg writes it."""
    while True:
        condition = _short(random_condition(rng, [column for _, column in columns.values()]))
        with suppress(_InexpressibleError):
            return condition, _expression(condition)


def _short(condition: Condition) -> Condition:
    """Return the condition with numbers as people write them: 0.1 where a FLOAT has the nearest to it."""
    match condition:
        case Joined(function, children):
            return Joined(function, tuple(map(_short, children)))
        case Single(column=column, literals=literals) if column.field.type.root is TypeRoot.DOUBLE:
            short = (None if each is None else float(str(np.float32(each))) for each in literals)
            return replace(condition, literals=tuple(short))
        case _:
            return condition


def _expression(condition: Condition) -> dict[str, Any]:
    match condition:
        case Joined("NOT", (child,)):
            return {"type": "not", "child": _expression(child)}
        case Joined(function, children):
            return _joined(function.lower(), [_expression(child) for child in children])
        case Single(function="BETWEEN" | "NOT_BETWEEN" as function, literals=(low, high)):
            ends = [replace(condition, function="GREATER_OR_EQUAL", literals=(low,))]
            ends.append(replace(condition, function="LESS_OR_EQUAL", literals=(high,)))
            between = _joined("and", [_expression(end) for end in ends])
            return between if function == "BETWEEN" else {"type": "not", "child": between}
        case Single(function=function, literals=literals) if function in _TESTS and None not in literals:
            test = {"type": _TESTS[function], "term": condition.column.field.name}
            values = [_literal(value, condition.column.field.type) for value in literals]
            if function in ("IN", "NOT_IN"):
                return {**test, "values": values}
            return {**test, "value": values[0]} if values else test
        case _:
            raise _InexpressibleError


def _joined(name: str, parts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return reduce(lambda left, right: {"type": name, "left": left, "right": right}, parts)


def _swapped(expression: Any) -> Any:
    """Return the expression with names in the other case."""
    return {
        name: member.swapcase()
        if name == "term"
        else _swapped(member)
        if isinstance(member, dict)
        else member
        for name, member in expression.items()
    }


def _literal(value: Any, data_type: DataType) -> Json:
    root = data_type.root
    if root in STRING_ROOTS:
        return bytes(value).decode()
    if root in BINARY_ROOTS:
        return bytes(value).hex()
    if root is TypeRoot.DECIMAL:
        return str(Decimal(value).scaleb(-data_type.scale))
    if root in TIMESTAMP_ROOTS:
        return int(value) // NANOS_PER_MICRO
    if root in FLOATING_ROOTS:
        return repr(float(value))
    return value  # type: ignore[no-any-return] # a number or truth value


def _bound(condition: Condition, columns: Mapping[str, tuple[int, Column]]) -> Condition:
    """Return the condition as its names mean it in a schema."""
    match condition:
        case Joined(function, children):
            return Joined(function, tuple(_bound(child, columns) for child in children))
        case Single(column=written, function=function, literals=literals):
            if written.field.name not in columns:
                raise _InexpressibleError
            at, column = columns[written.field.name]
            return Single(
                at, column, function, tuple(_cast(each, written, column.field.type) for each in literals)
            )
        case _:
            raise _InexpressibleError


def _cast(value: Value | None, column: Column, data_type: DataType) -> Value | None:
    """Return a literal of one column as a client has it for a column of another type."""
    root, other = column.field.type.root, data_type.root
    if {root, other} == {TypeRoot.FLOAT, TypeRoot.DOUBLE}:
        return to_float32(value) if other is TypeRoot.FLOAT else value  # type: ignore[arg-type]
    if {root, other} == {TypeRoot.INT, TypeRoot.BIGINT} and value is not None:
        low, high = integer_range(data_type)
        if low <= int(value) <= high:
            return value
    elif column.field.type == data_type:
        return value
    raise _InexpressibleError
