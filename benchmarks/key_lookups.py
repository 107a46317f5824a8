"""Buckets of keys: a table of ten million keys in dynamic buckets, and its hash index alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from typing import Final

import numpy as np

from app.bucket_index import Hashes, PartitionIndex, hash_index
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import LookupRequest, TableRef
from app.types import DataField, DataType, TypeRoot
from benchmarks.avro_files import write_records
from benchmarks.avro_schemas import INDEX_MANIFEST
from benchmarks.events import DATABASE
from benchmarks.manifest_records import EMPTY_ROW
from benchmarks.services import WAREHOUSE, open_service
from benchmarks.synthetic import make_table, schema_json, table_directory, write_snapshot
from benchmarks.workload import Figure, Suite, Target, Unit, Workload

LARGEST: Final = 10_000_000
SMALLER: Final = 1_000_000
_BUCKETS: Final = 5
_ASKED: Final = 1_000
_TABLE: Final = "keyed"
_KEY: Final = DataField(0, "k", DataType(TypeRoot.BIGINT, nullable=False))
_LOOKUP: Final = Target(2)
_BYTES_A_KEY: Final = Target(6)
_ROOM: Final = CacheBytes(hash_indexes=1 << 30, plans=0)


def suites() -> Iterator[Suite]:
    """Look-ups in two sizes of index."""
    for keys in (SMALLER, LARGEST):
        yield Suite(f"bucket look-ups, {keys} keys", partial(_workloads, keys), partial(_prepare, keys))


def lookup_name() -> str:
    """Return what results call a look-up in the index of a partition."""
    return f"buckets of {_ASKED:,} key hashes, in the index"


def _warehouse(directory: Path, keys: int) -> Path:
    return directory / f"keys-{keys}"


def _hashes(keys: int) -> Hashes:
    """Hashes of all keys, each once, in the order in which buckets were filled."""
    # Multiplying by an odd number gives every number of 32 bits once, in an order that looks like chance.
    return (np.arange(keys, dtype=np.uint32) * np.uint32(2_654_435_761)).view(np.int32)


def _prepare(keys: int, directory: Path) -> None:
    table = table_directory(_warehouse(directory, keys), _TABLE)
    make_table(table, schema_json([_KEY], primary_key=[_KEY]))
    entries = []
    for bucket, hashes in enumerate(np.array_split(_hashes(keys), _BUCKETS)):
        path = table / "index" / f"index-{bucket}"
        path.write_bytes(hash_index.write(hashes))
        entries.append(
            {
                "_VERSION": 1,
                "_KIND": 0,
                "_PARTITION": EMPTY_ROW,
                "_BUCKET": bucket,
                "_INDEX_TYPE": "HASH",
                "_FILE_NAME": path.name,
                "_FILE_SIZE": path.stat().st_size,
                "_ROW_COUNT": len(hashes),
            }
        )
    write_records(table / "manifest" / "index-manifest-1", INDEX_MANIFEST, entries)
    write_snapshot(table, 1, [], [], index_manifest="index-manifest-1", rows=0)


def _workloads(keys: int, directory: Path) -> Iterator[Workload | Figure]:
    hashes = _hashes(keys)
    chosen = np.random.default_rng(2)
    asked = [
        np.concatenate(
            [
                chosen.choice(hashes, _ASKED // 2),
                chosen.integers(-(1 << 31), 1 << 31, _ASKED // 2).astype(np.int32),
            ]
        )
        for _ in range(20)
    ]
    index = PartitionIndex.merge(list(enumerate(np.array_split(hashes, _BUCKETS))))
    random = Random(keys)
    is_largest = keys == LARGEST
    yield Workload(
        lookup_name(),
        keys,
        lambda: index.lookup(random.choice(asked)),
        target=_LOOKUP if is_largest else None,
    )
    yield Figure(
        "resident index of key hashes",
        keys,
        Unit.BYTES_EACH,
        index.nbytes / keys,
        target=_BYTES_A_KEY if is_largest else None,
    )
    table = TableRef(WAREHOUSE, DATABASE, _TABLE)
    with closing(open_service(_warehouse(directory, keys), _ROOM)) as service:

        def by_hash() -> object:
            return service.lookup(table, LookupRequest(hashes=tuple(random.choice(asked).tolist())))

        def by_key() -> object:
            some = ({_KEY.name: random.randrange(1 << 62)} for _ in range(_ASKED))
            return service.lookup(table, LookupRequest(keys=tuple(some)))

        yield Workload(f"buckets of {_ASKED:,} key hashes, in the service", keys, by_hash)
        yield Workload(f"buckets of {_ASKED:,} keys, in the service", keys, by_key)
