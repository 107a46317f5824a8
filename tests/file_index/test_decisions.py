"""Many files at once beside the indexes of each file, asked one by one."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.errors import CorruptIndexError
from app.file_index import container
from app.file_index.answers import KEEP, SKIP, Answer, Result, Rows
from app.file_index.evaluation import decide_files, evaluate
from app.file_index.findings import FileDecisions
from app.file_index.index_kinds import BSI, RANGE_BITMAP, IndexKind, wanted_indexes
from app.file_index.stacked_index import FileIndex, Heads, StackedIndex
from app.predicates.model import BoundLeaf, BoundPredicate, Operator
from app.types import DataField, DataType, Value, parse_type
from app.types.bytes_column import BytesColumn
from tests import golden_cases
from tests.brute_force import matching_rows
from tests.examples import examples, share
from tests.file_index.strategies import leaves
from tests.file_index.tables import INDEXED, predicates, tables
from tests.golden_checks import together
from tests.tables import payload as made_payload

INT = parse_type("INT")
_DAMAGED_BYTES = 64
"""Of each index; the heads of small ones take fewer."""


def _by_file(predicate: BoundPredicate, content: bytes, row_count: int) -> Result | CorruptIndexError:
    try:
        return evaluate(predicate, FileIndex.read(content), row_count=row_count)
    except CorruptIndexError as error:
        return error


def _decide(
    predicate: BoundPredicate, contents: Sequence[bytes | None], counts: Sequence[int]
) -> FileDecisions:
    index = StackedIndex.read(BytesColumn.of(contents))
    files, row_counts = np.arange(len(contents)), np.array(counts, np.int64)
    first = decide_files(predicate, index, files, row_counts)
    # Keys that are asked about again are merged.
    second = decide_files(predicate, index, files, row_counts)
    assert first.answers.tolist() == second.answers.tolist()
    return second


@pytest.mark.parametrize("data_type", INDEXED, ids=str)
@given(data=st.data())
@examples(10)
def test_decides_as_the_indexes_of_each_file(data_type: DataType, data: st.DataObject) -> None:
    rows, contents = data.draw(tables(data_type))
    fields = [DataField(at, name, data_type) for at, name in enumerate("ab")]
    counts = [len(each["a"]) for each in rows]
    index = StackedIndex.read(BytesColumn.of(contents))
    values = [value for each in rows for value in each["a"]]

    for _ in range(4):
        predicate = data.draw(
            predicates(st.sampled_from(fields).flatmap(lambda field: leaves(field, values)))
        )
        chosen = np.flatnonzero(
            (data.draw(st.lists(st.booleans(), min_size=7, max_size=7)) * 20)[: len(rows)]
        )
        chosen = chosen[::-1]
        decisions = decide_files(predicate, index, chosen, np.array(counts)[chosen])

        assert decisions.errors == {}
        for place, file in enumerate(chosen.tolist()):
            one = _by_file(predicate, contents[file], counts[file])
            if decisions.answers[place] != Answer.DOUBT:
                assert decisions.skip[place] == (one is SKIP)
            assert not decisions.skip[place] or one is SKIP
            assert (one is KEEP) <= (decisions.answers[place] == 3)


@st.composite
def damages(draw: st.DrawFn, content: bytes) -> bytes:
    changed = bytearray(content)
    heads = [
        at
        for listed in FileIndex.read(content).entries.values()
        for entry in listed
        for at in range(entry.start, min(entry.end, entry.start + _DAMAGED_BYTES))
    ]
    places = st.integers(0, len(changed) - 1)
    for _ in range(draw(st.integers(0, 3))):
        at = draw(st.one_of(*[st.sampled_from(heads)] * 3, places) if heads else places)
        flipped = [changed[at] ^ 1 << bit for bit in range(8)]
        changed[at] = draw(st.sampled_from([0, 1, 2, 127, 128, 255, *flipped]))
    return bytes(changed)


def _lost_to_damage(
    leaf: BoundLeaf, rows: Sequence[dict[str, list[Value | None]]], damaged: Sequence[bytes]
) -> list[int]:
    """Files that many at once are asked to skip, although their own reader finds a row that matches."""
    counts = [len(each["a"]) for each in rows]
    decisions = _decide(leaf, damaged, counts)
    lost = []
    for file in np.flatnonzero(decisions.skip).tolist():
        if truth := matching_rows(leaf, rows[file], counts[file]):
            one = _by_file(leaf, damaged[file], counts[file])
            if one is not SKIP and not (isinstance(one, Rows) and not one.positions & truth):
                lost.append(file)
    return lost


@given(data=st.data())
def test_a_damaged_index_never_skips_what_its_reader_would_find(data: st.DataObject) -> None:
    data_type = data.draw(st.sampled_from([INT, parse_type("STRING"), parse_type("TINYINT")]))
    field = DataField(0, "a", data_type)
    rows, contents = data.draw(tables(data_type))
    distinct = {content: data.draw(damages(content)) for content in dict.fromkeys(contents)}
    damaged = [distinct[content] for content in contents]

    for _ in range(4):
        leaf = data.draw(leaves(field, [value for each in rows for value in each["a"]]))
        assert not _lost_to_damage(leaf, rows, damaged)


DAMAGED_HEADS = [
    # One value, whose first byte was damaged in the dictionary: the head still says what it was.
    (RANGE_BITMAP, [-(1 << 31)], (1 << 31).to_bytes(4), 2, bytes(4), [0]),
    # The largest absolute value was made smaller, as far as the number of slices allows.
    (BSI, [5], (5).to_bytes(8), 0, (4).to_bytes(8), [0, 1, 2, 3, 4]),
]


@pytest.mark.parametrize(("kind", "values", "stored", "occurrence", "instead", "others"), DAMAGED_HEADS)
def test_a_damaged_head_never_skips_what_its_reader_would_find(
    kind: IndexKind, values: list[int], stored: bytes, occurrence: int, instead: bytes, others: list[int]
) -> None:
    content = container.write({"a": [(kind, made_payload(kind, values, DataField(0, "a", INT)))]})
    pieces = content.split(stored)
    damaged = stored.join(pieces[: occurrence + 1]) + instead + stored.join(pieces[occurrence + 1 :])
    rows: list[dict[str, list[Value | None]]] = [{"a": list(values)}]

    for operator in (Operator.NOT_IN, Operator.NOT_EQUAL):
        leaf = BoundLeaf(
            operator, DataField(0, "a", INT), tuple(others[:1] if operator is Operator.NOT_EQUAL else others)
        )
        assert not _lost_to_damage(leaf, rows, [damaged])


@together("kind", "name", golden_cases.index_names_by_kind())
def test_decides_as_the_readers_of_golden_files(name: str) -> None:
    golden = golden_cases.load_index(name)
    index = StackedIndex.read(BytesColumn.of([golden.content, None, golden.content]))

    for check in share(golden.document["checks"], 7):
        predicate = golden.bind(check["predicate"])
        decisions = decide_files(predicate, index, np.array([2, 0]), np.full(2, golden.row_count))
        one = _by_file(predicate, golden.content, golden.row_count)
        assert not decisions.errors, str(predicate)
        if (decisions.answers != Answer.DOUBT).all():
            assert decisions.skip.tolist() == [one is SKIP] * 2, str(predicate)
        assert one is SKIP or not decisions.skip.any(), str(predicate)


@given(data=st.data())
@examples(40)
def test_asks_no_more_than_the_payloads_it_says_it_needs(data: st.DataObject) -> None:
    rows, contents = data.draw(tables(INT))
    fields = [DataField(at, name, INT) for at, name in enumerate("ab")]
    predicate = data.draw(
        predicates(st.sampled_from(fields).flatmap(lambda field: leaves(field, rows[0]["a"])))
    )
    counts = [len(each["a"]) for each in rows]
    column = BytesColumn.of(contents)
    sizes = column.lengths
    heads = Heads.read(
        BytesColumn(column.data, column.starts, np.array([int.from_bytes(each[12:16]) for each in contents])),
        sizes,
    )
    fetched: dict[tuple[str, str], list[bytes | None]] = {}
    for file, content in enumerate(contents):
        for entry in (each for listed in heads.entries(file).values() for each in listed):
            if entry.is_empty or (entry.column, entry.kind) not in wanted_indexes(predicate):
                continue
            of_kind = fetched.setdefault((entry.column, entry.kind), [None] * len(contents))
            of_kind[file] = content[entry.start : entry.end]
    index = StackedIndex(heads, {key: BytesColumn.of(each) for key, each in fetched.items()})

    decisions = decide_files(predicate, index, np.arange(len(contents)), np.array(counts))

    assert decisions.answers.tolist() == _decide(predicate, contents, counts).answers.tolist()
    for file, content in enumerate(contents):
        assert evaluate(predicate, index.file_index(file), row_count=counts[file]) == _by_file(
            predicate, content, counts[file]
        )


FILES = 6
KINDS = ("bloom-filter", "bitmap", "a kind that nobody knows")
CODES = (Answer.SKIP, Answer.ROWS, Answer.KEEP)


@st.composite
def decisions(draw: st.DrawFn) -> FileDecisions:
    """Return what indexes say of some files, and what that comes to, in whatever way it was combined."""
    said = []
    for kind in draw(st.lists(st.sampled_from(KINDS), max_size=4)):
        at = np.array(sorted(draw(st.sets(st.integers(0, FILES - 1)))), np.int64)
        said.append((kind, at, np.array([draw(st.sampled_from(CODES)) for _ in at], np.int8)))
    answers = np.array([draw(st.sampled_from(CODES)) for _ in range(FILES)], np.int8)
    return FileDecisions(answers, np.ones(FILES, bool), np.zeros(FILES, bool), {}, said)


@given(decisions())
def test_each_skipped_file_counts_for_one_kind(decided: FileDecisions) -> None:
    counted = sum((skipped.astype(int) for _, skipped in decided.skipped_by()), np.zeros(FILES, int))

    assert counted.tolist() == decided.skip.astype(int).tolist()


def test_the_last_kind_that_ruled_a_file_out_counts() -> None:
    everything = np.arange(3)
    skip, keep = Answer.SKIP, Answer.KEEP
    said = [
        ("bloom-filter", everything, np.array([skip, keep, keep])),
        ("bitmap", everything[1:], np.array([skip, keep])),
    ]
    decided = FileDecisions(np.array([skip, skip, skip]), np.ones(3, bool), np.zeros(3, bool), {}, said)

    by_kind = {kind: np.flatnonzero(skipped).tolist() for kind, skipped in decided.skipped_by()}

    # The third was ruled out by what both say together.
    assert by_kind == {None: [], "bloom-filter": [0], "bitmap": [1, 2]}
