from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.file_index.keys import byte_order

_STRINGS = st.tuples(
    st.sampled_from([b"", b"\0", b"a" * 7, b"a" * 8, b"prefix-of-many-words", b"x" * 300]),
    st.lists(st.sampled_from([b"\0", b"\1", b"a", b"\xff"]), max_size=9).map(b"".join),
).map(b"".join)


def test_keeps_strings_apart_that_differ_only_in_front() -> None:
    strings = [b"%07d, and the same behind" % (number % 20) for number in range(60)]
    lengths = np.array([len(each) for each in strings], np.int64)
    data = np.frombuffer(b"".join(strings), np.uint8)

    order, ranks = byte_order.rank(data, np.cumsum(lengths) - lengths, lengths)

    assert [strings[each] for each in order.tolist()] == sorted(strings)
    assert ranks.tolist() == [number % 20 for number in range(60)]


@given(st.lists(_STRINGS, max_size=60))
def test_sorts_as_python_does(strings: list[bytes]) -> None:
    lengths = np.array([len(each) for each in strings], np.int64)
    data = np.frombuffer(b"".join(strings), np.uint8)

    order, ranks = byte_order.rank(data, np.cumsum(lengths) - lengths, lengths)

    assert [strings[each] for each in order.tolist()] == sorted(strings)
    distinct = sorted(set(strings))
    assert [distinct[each] for each in ranks.tolist()] == strings
