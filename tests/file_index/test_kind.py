"""A kind of index that is registered, and known nowhere else, serves every purpose of an index."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from app.building import ColumnTypes, DataFile, advise, build, read_columns, table_options, verify
from app.building.columns import DataFormat
from app.errors import CorruptIndexError
from app.file_index import container
from app.file_index.answers import SKIP, Answer, Answers, Condition, OutOfTime, Points, where
from app.file_index.container import write_index
from app.file_index.evaluation import decide_files, evaluate
from app.file_index.findings import UNKNOWN_ROW_COUNT
from app.file_index.index_kinds import KINDS
from app.file_index.inspection import inspect
from app.file_index.keys.key_column import KeyColumn
from app.file_index.keys.keys import KeySpace
from app.file_index.kind import ColumnProfile, Kind, Proposal
from app.file_index.payloads import Cursor
from app.file_index.stacked_index import FileIndex, StackedIndex
from app.file_index.table_options import FileIndexOptions
from app.options.reading import whole_number
from app.predicates.binding import bind
from app.predicates.model import BoundPredicate
from app.predicates.text import read_text
from app.types import DataField, DataType, Json, TypeRoot, Value, parse_type
from app.types.bytes_column import BytesColumn
from app.types.roaring import Buffer
from tests.data_files import write_data_file
from tests.key_columns import key_column

NUMBER = DataField(0, "number", parse_type("BIGINT"))
FILES: tuple[list[Value | None], ...] = ([1, 2, 3], [4, None, 6], [7, 8, 2])


@dataclass(frozen=True)
class Remainders:
    """The remainders of a column's numbers; a file is skipped whose numbers leave others."""

    divisor: int
    present: frozenset[int]


def _read(payload: Buffer) -> Remainders:
    cursor = Cursor(payload)
    divisor = cursor.i32("divisor")
    if divisor < 1:
        raise CorruptIndexError(f"expected a divisor of at least 1, found {divisor}", offset=0)
    count = cursor.i32("number of remainders")
    return Remainders(divisor, frozenset(cursor.i32("remainder") for _ in range(count)))


class RemaindersKind(Kind[Remainders, int]):
    __slots__ = ()

    options_class: ClassVar[type] = int
    option_names: ClassVar[tuple[str, ...]] = ("divisor",)
    tells_rows: ClassVar[bool] = False

    def takes(self, data_type: DataType) -> bool:
        return data_type.root is TypeRoot.BIGINT

    def stack(self, payloads: BytesColumn, space: KeySpace, *, strict: bool = False) -> RemaindersOfFiles:  # noqa: ARG002
        opened: list[Remainders | None] = []
        for payload in map(payloads.view, range(len(payloads))):
            try:
                opened.append(None if payload is None else _read(payload))
            except CorruptIndexError:
                if strict:
                    raise
                opened.append(None)
        return RemaindersOfFiles(tuple(opened), payloads.is_null)

    def can_answer(self, condition: Condition) -> bool:
        return isinstance(condition, Points) and not condition.negated

    def parse_options(self, written: Mapping[str, str]) -> int:
        return whole_number("divisor", written.get("divisor", "4"))

    def written_options(self, options: int) -> dict[str, str]:
        return {"divisor": str(options)}

    def write(self, column: KeyColumn, options: int) -> bytes:
        found = sorted({int(key) % options for key in np.asarray(column.keys)})
        return struct.pack(f">{len(found) + 2}i", options, len(found), *found)

    def describe(self, index: Remainders, data_type: DataType) -> dict[str, Json]:  # noqa: ARG002
        return {"divisor": index.divisor, "remainders": sorted(index.present)}

    def describe_untyped(self, payload: Buffer) -> dict[str, Json]:
        return {"divisor": Cursor(payload).i32("divisor")}

    def propose(self, profile: ColumnProfile) -> Proposal[int]:  # noqa: ARG002
        return Proposal(100, "few remainders", 4)


@dataclass(frozen=True)
class RemaindersOfFiles:
    """The remainders of many files; None where there are none that can be read."""

    indexes: tuple[Remainders | None, ...]
    absent: NDArray[np.bool_]

    @property
    def nbytes(self) -> int:
        return len(self.broken)

    @property
    def broken(self) -> NDArray[np.bool_]:
        return np.array([each is None for each in self.indexes]) & ~self.absent

    @property
    def row_counts(self) -> None: ...

    def of_file(self, file: int) -> Remainders:
        index = self.indexes[file]
        assert index is not None
        return index

    def answers(self, condition: Condition, files: NDArray[np.int64], _: OutOfTime) -> Answers:
        assert isinstance(condition, Points)
        kept = [
            any(key % index.divisor in index.present for key in condition.keys)
            for index in map(self.of_file, files.tolist())
        ]
        return where(np.array(kept, np.bool_), Answer.KEEP)


@pytest.fixture
def kind(monkeypatch: pytest.MonkeyPatch) -> RemaindersKind:
    toy = RemaindersKind("remainders")
    monkeypatch.setitem(KINDS, toy, toy)
    return toy


def _bound(written: str) -> BoundPredicate:
    return bind(read_text(written), (NUMBER,))


def _described(index: FileIndex, types: Mapping[str, DataType]) -> list[dict[str, Any]]:
    columns: Any = inspect(index, types)["columns"]
    return [described for column in columns for described in column["indexes"]]


def _containers(kind: RemaindersKind) -> list[bytes]:
    return [
        container.write({"number": [(kind, write_index(kind, key_column(rows, NUMBER.type), 4))]})
        for rows in FILES
    ]


def test_it_is_read_and_evaluated(kind: RemaindersKind) -> None:
    kept = [
        [evaluate(_bound(written), FileIndex.read(each)) is not SKIP for each in _containers(kind)]
        for written in ("number = 4", "number IN (9, 10)", "number > 100")
    ]

    assert kept == [[False, True, True], [True, True, True], [True, True, True]]


def test_many_files_are_asked_at_once(kind: RemaindersKind) -> None:
    index = StackedIndex.read(BytesColumn.of(_containers(kind)))
    counts = np.full(len(FILES), UNKNOWN_ROW_COUNT)

    found = decide_files(_bound("number = 4"), index, np.arange(len(FILES)), counts)

    assert found.skip.tolist() == [True, False, False]
    assert not found.errors


def test_a_broken_one_keeps_its_file(kind: RemaindersKind) -> None:
    good, *_ = _containers(kind)
    broken = container.write({"number": [(kind, bytes(8))]})
    index = StackedIndex.read(BytesColumn.of([good, broken]))

    found = decide_files(_bound("number = 4"), index, np.arange(2), np.full(2, UNKNOWN_ROW_COUNT))

    assert found.answers[1] == Answer.KEEP
    assert list(found.errors) == [1]
    with pytest.raises(CorruptIndexError, match="divisor of at least 1"):
        evaluate(_bound("number = 4"), FileIndex.read(broken))


def test_it_is_inspected(kind: RemaindersKind) -> None:
    index = FileIndex.read(_containers(kind)[0])

    (typed,) = _described(index, {"number": NUMBER.type})
    (untyped,) = _described(index, {})

    assert typed.items() >= {"type": "remainders", "divisor": 4, "remainders": [1, 2, 3]}.items()
    assert untyped["divisor"] == 4


@pytest.mark.usefixtures("kind")
def test_it_is_advised_and_built_as_advised(tmp_path: Path) -> None:
    table = pa.table({"number": pa.array([1, 5, 9], pa.int64())})
    file = DataFile.open(write_data_file(tmp_path / "data.parquet", table, DataFormat.PARQUET))
    types = ColumnTypes(file, {})

    options = table_options(advise(file, types))
    built = build(read_columns(file, ["number"]), FileIndexOptions.parse(options, {"number": NUMBER.type}))

    assert options == {"file-index.remainders.columns": "number", "file-index.remainders.number.divisor": "4"}
    assert [(entry.column, entry.kind) for entry in built.entries] == [("number", "remainders")]


@pytest.mark.parametrize(("indexed", "problem"), [([1, 5, 9], None), ([1, 5, 8], "= 9 leaves out row 2")])
def test_it_is_proven_by_the_rows(kind: RemaindersKind, indexed: list[Value], problem: str | None) -> None:
    content = container.write({"number": [(kind, write_index(kind, key_column(indexed, NUMBER.type), 7))]})

    (checked,) = verify(content, lambda _: key_column([1, 5, 9], NUMBER.type), 3).entries

    assert (None if checked.problem is None else checked.problem.detail[: len(problem or "")]) == problem
