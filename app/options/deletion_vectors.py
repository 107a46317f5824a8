"""How a table wants its deletion vectors written.

============================================  =======  ================================================
option                                        default  meaning
============================================  =======  ================================================
``deletion-vectors.bitmap64``                 false    whether new vectors are 64-bit ones
``deletion-vector.index-file.target-size``    2 mb     a file of vectors is closed once it is larger;
                                                       files of buckets never are
============================================  =======  ================================================

Readers need neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from app.options.reading import OptionReader

DEFAULT_TARGET_BYTES: Final = 2 << 20

_BITMAP64: Final = "deletion-vectors.bitmap64"
_TARGET_SIZE: Final = "deletion-vector.index-file.target-size"


@dataclass(frozen=True, slots=True)
class VectorOptions:
    """The options of one table.

    Attributes:
        bitmap64: whether new vectors are 64-bit ones; a vector that is one already stays one.
        target_bytes: a file is closed once it is larger.
    """

    bitmap64: bool = False
    target_bytes: int = DEFAULT_TARGET_BYTES

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> VectorOptions:
        """Reads the options of a table."""
        reader = OptionReader(options, given=True)
        return cls(reader.boolean(_BITMAP64, default=False), reader.size(_TARGET_SIZE, DEFAULT_TARGET_BYTES))
