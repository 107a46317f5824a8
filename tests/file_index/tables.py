"""Random files with indexes on two columns, and predicates over them."""

from collections.abc import Mapping, Sequence

from hypothesis import strategies as st
from pyroaring import BitMap

from app.file_index import container
from app.file_index.answers import KEEP, Result, Rows
from app.file_index.bitmap import bitmap
from app.file_index.bloom_filter import bloom_filter
from app.file_index.bsi import bsi
from app.file_index.index_kinds import BSI, KINDS, IndexKind
from app.file_index.range_bitmap import range_bitmap
from app.predicates.model import (
    ALWAYS_FALSE,
    ALWAYS_TRUE,
    BoundAnd,
    BoundLeaf,
    BoundOr,
    BoundPredicate,
    Unknown,
)
from app.types import DataType, Value
from tests.file_index.strategies import TYPES, columns
from tests.key_columns import key_column

INDEXED = [data_type for data_type in TYPES if any(kind.takes(data_type) for kind in KINDS.values())]


@st.composite
def payloads(draw: st.DrawFn, kind: IndexKind, rows: Sequence[Value | None], data_type: DataType) -> bytes:
    """Return an index of the rows, written with whatever options there are."""
    column = key_column(rows, data_type)
    match kind:
        case "bloom-filter":
            items, fpp = draw(st.sampled_from([(20, 0.05), (20, 0.3), (50, 0.05)]))
            return bloom_filter.write(column, items, fpp)
        case "bitmap":
            version, block_bytes = draw(st.sampled_from([(1, 64), (2, 64), (2, 16384)]))
            return bitmap.write(column, version, block_bytes)
        case "range-bitmap":
            return range_bitmap.write(column, draw(st.sampled_from([0, 16, 16384])))
        case _:
            return bsi.write(column)


@st.composite
def containers(
    draw: st.DrawFn, columns_of_file: Mapping[str, Sequence[Value | None]], data_type: DataType
) -> bytes:
    """Return a file with some indexes on some of its columns."""
    taken = [kind for kind in KINDS.values() if kind.takes(data_type)]
    kinds = st.lists(st.sampled_from(taken), max_size=len(taken), unique=True)
    listed: dict[str, list[tuple[str, bytes | None]]] = {}
    for name, rows in columns_of_file.items():
        chosen = draw(kinds)
        listed[name] = [(kind, draw(payloads(kind, rows, data_type))) for kind in chosen]
        if draw(st.integers(0, 5)) == 0:
            listed[name].append(("later", b"?"))
    if draw(st.integers(0, 9)) == 0:
        listed = {name: [] for name in listed}
    return container.write(dict(draw(st.permutations(list(listed.items())))))


def selected(result: Result, row_count: int) -> BitMap:
    if isinstance(result, Rows):
        return result.positions
    return BitMap(range(row_count)) if result is KEEP else BitMap()


@st.composite
def predicates(draw: st.DrawFn, leaf: st.SearchStrategy[BoundLeaf]) -> BoundPredicate:
    parts: st.SearchStrategy[BoundPredicate] = st.one_of(
        leaf, st.sampled_from([ALWAYS_TRUE, ALWAYS_FALSE, Unknown("?")])
    )
    found: BoundPredicate = draw(
        st.recursive(
            parts,
            lambda inner: (
                st.builds(BoundAnd, st.lists(inner, max_size=3).map(tuple))
                | st.builds(BoundOr, st.lists(inner, max_size=3).map(tuple))
            ),
            max_leaves=5,
        )
    )
    return found


@st.composite
def tables(draw: st.DrawFn, data_type: DataType) -> tuple[list[dict[str, list[Value | None]]], list[bytes]]:
    """Return the columns ``a`` and ``b`` of some files, and their containers."""
    least = not BSI.takes(data_type)
    files = draw(
        st.lists(st.tuples(*(columns(data_type, least_integer=least) for _ in "ab")), min_size=1, max_size=6)
    )
    rows = []
    for a, b in files:
        count = min(len(a), len(b), 12)
        rows.append({"a": a[:count], "b": b[:count]})
    contents = [draw(containers(each, data_type)) for each in rows]
    times = draw(st.sampled_from([1, 20]))
    return rows * times, contents * times
