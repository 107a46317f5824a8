"""What a reader expects of metadata records, whichever format they are in; types have Avro's names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Nullable:
    """A union with null."""

    inner: Expected


@dataclass(frozen=True, slots=True)
class ArrayOf:
    """An array."""

    items: Expected


@dataclass(frozen=True, slots=True, eq=False)
class RecordOf:
    """A record with at least these fields, save nullable ones."""

    fields: Mapping[str, Expected]


@dataclass(frozen=True, slots=True)
class AsWritten:
    """A simple type of which nothing is expected: that of a field which only the writer of a file knows."""

    schema: bytes


Expected: TypeAlias = "str | Nullable | ArrayOf | RecordOf | AsWritten"
