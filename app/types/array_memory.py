"""What arrays take of a process's own memory."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from app.mapped_bytes import MappedBytes


def own_bytes(array: NDArray[Any]) -> int:
    """Bytes of memory that an array takes; one item's where all are the same, and none if it is mapped.

    The system gives and takes the memory of mapped files, and processes share it.
    """
    if not any(array.strides):
        return min(array.itemsize, array.nbytes)
    holder: object = array
    while isinstance(holder, np.ndarray) and not isinstance(holder, MappedBytes):
        holder = holder.base
    return 0 if isinstance(holder, MappedBytes) else array.nbytes
