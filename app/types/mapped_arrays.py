"""Arrays over files that are mapped: the system gives and takes their memory, and processes share it."""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def own_bytes(array: NDArray[Any]) -> int:
    """Bytes of memory that an array takes, none if it is mapped."""
    holder: object = array
    while isinstance(holder, np.ndarray):
        holder = holder.base
    return 0 if isinstance(holder, mmap.mmap) else array.nbytes
