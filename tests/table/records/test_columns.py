import weakref
from collections.abc import Iterator

import pyarrow as pa

from app.table.records.columns import take_out

MADE = [{"name": f"file-{number}", "index": bytes([number]) * 3} for number in range(6)]


def test_a_column_is_taken_out_of_pieces_that_are_let_go_of_one_by_one() -> None:
    alive: list[weakref.ref[pa.StructArray]] = []
    most = 0

    def pieces() -> Iterator[pa.StructArray]:
        nonlocal most
        for made in MADE:
            yield (piece := pa.array([made, {**made, "index": None}]))
            alive.append(weakref.ref(piece))
            del piece
            most = max(most, sum(each() is not None for each in alive))

    records, column = take_out(pieces(), "index")

    assert most == 1
    assert list(column) == [value for made in MADE for value in (made["index"], None)]
    assert records.objects("name") == [made["name"] for made in MADE for _ in range(2)]


def test_what_is_left_of_several_pieces_holds_none_of_their_memory() -> None:
    before = pa.total_allocated_bytes()
    pieces = (pa.array([{"name": "file", "index": bytes(1_000_000)}]) for _ in range(4))

    records, _ = take_out(pieces, "index")

    assert len(records) == 4
    assert pa.total_allocated_bytes() - before < 1_000_000
