"""Marks of writers in manifest entries, which show how far a file's bounds can be trusted.

No entry names its writer, and the engine copies entries when it merges manifests, but two marks are sure:

===============================================  ====================================================
the entry                                        its writer
===============================================  ====================================================
``_FILE_SOURCE`` is COMPACT                      rewrote the rows: not pypaimon up to 1.4.2
no primary key, two rows or more, whose          numbers rows as they come: not pypaimon up to 1.4.2,
sequence numbers are exactly as many             which gives all rows of such a file the same number
===============================================  ====================================================

A level is not a mark: the engine moves files to other levels without rewriting them. Nor are sequence numbers
of tables with a primary key: those of files that pypaimon cut at the target size follow no rule. Evidence:
``docs/decisions/trusted-bounds.md``.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from app.table.manifests import FileSource, Manifest


def writes_exact_clocks(manifest: Manifest, *, has_primary_key: bool) -> NDArray[np.bool_]:
    """Mask files of a manifest, shape (n,), whose writer does not store clocks in its local time."""
    is_rewritten: NDArray[np.bool_] = manifest.file_sources == FileSource.COMPACT
    if has_primary_key:
        return is_rewritten
    first, last = manifest.min_sequence_numbers, manifest.max_sequence_numbers
    # A difference that overflows is negative, and so equals no number of rows.
    spans_rows: NDArray[np.bool_] = (last > first) & (last - first == manifest.row_counts - 1)
    return np.logical_or(is_rewritten, spans_rows)
