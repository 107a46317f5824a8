"""Arrays that follow other arrays in the same memory.

A version of a table mostly has the files of the version before, and some more. Joining the arrays of both
would copy all of them with every commit, and keep as many copies as versions are remembered. So arrays are
given room to grow: what follows is written behind the end, where nobody has looked yet.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    Arrays = Mapping[str, NDArray[Any]]

_SPARE: Final = 4
"""One part in so many is spare; memory that is never written to costs nothing."""


class GrowingArrays:
    """Room for some arrays of one length, shared by all of them that begin alike.

    Nothing within the length of an array that was given out changes any more. Threads may share a room.
    """

    def __init__(self, before: Arrays, added: Arrays) -> None:
        """Room with copies of some arrays in it, others of the same names behind them, and some to spare."""
        self._lock = threading.Lock()
        self._used = _length(before)
        least = self._used + _length(added)
        self._capacity = least + least // _SPARE
        self._buffers = {name: np.empty(self._capacity, array.dtype) for name, array in before.items()}
        for name, array in before.items():
            self._buffers[name][: self._used] = array
        self.append(self._used, added)

    def append(self, length: int, added: Arrays) -> bool:
        """Has others follow arrays of so many items that lie here.

        Returns:
            False if something else follows these already, or there is too little room.
        """
        end = length + _length(added)
        with self._lock:
            if length != self._used or end > self._capacity:
                return False
            for name, array in added.items():
                self._buffers[name][length:end] = array
            self._used = end
        return True

    def first(self, length: int) -> Arrays:
        """The arrays of so many items."""
        return {name: buffer[:length] for name, buffer in self._buffers.items()}


def _length(arrays: Arrays) -> int:
    return len(next(iter(arrays.values())))
