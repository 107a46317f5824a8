"""The manifests of a version that a filter on partitions needs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress

import numpy as np
from numpy.typing import NDArray

from app.table.manifests.manifest_list import ManifestFile
from app.types.digest import content_digest


@dataclass(frozen=True, eq=False)
class NeededManifests:
    """The manifests that a filter needs, and what lists and snapshot say of all of them.

    Attributes:
        are_needed: bool, shape (manifests,).
        files: how many files the version has, those that no batch read sees included.
        rows: how many rows these have.
    """

    are_needed: NDArray[np.bool_]
    files: int
    rows: int

    def of(self, manifests: Sequence[ManifestFile]) -> tuple[ManifestFile, ...]:
        """Selects the needed ones of all manifests."""
        return tuple(compress(manifests, self.are_needed))

    @cached_property
    def digest(self) -> str:
        """Differs between sets of needed manifests of one version."""
        return content_digest(self.are_needed.tobytes())
