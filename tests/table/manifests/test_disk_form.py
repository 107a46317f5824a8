"""A manifest that is mapped is the manifest that was decoded."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash

from app.predicates.verdicts import ColumnBounds
from app.storage.disk.disk_tier import FORMAT, DiskTier
from app.storage.tiers import TierEntry, Tiers
from app.table.manifests.disk_form import load_value, manifest_columns, open_manifest, store_value
from app.table.manifests.manifest import COLUMNS, Manifest
from app.types.values import Values
from tests import golden_cases
from tests.examples import share
from tests.golden_cases import GoldenWarehouse


def entry(directory: Path, form: str = "manifest") -> TierEntry:
    tiers = Tiers(DiskTier(directory, 1 << 30))
    found = tiers.entry("file:///w/", "db.db/t/manifest/manifest-1", 1, form)
    assert found is not None
    return found


def opened(of: TierEntry, read: Callable[[], Manifest]) -> Manifest | None:
    columns = of.get()
    return None if columns is None else open_manifest(columns, of, read)


def manifests(golden: GoldenWarehouse) -> Iterator[Path]:
    for table in golden_cases.tables():
        found = (golden.table(table) / "manifest").glob("manifest-*")
        yield from sorted(path for path in found if "-list-" not in path.name)


def plain(value: object) -> Any:
    """Return what a column holds, in a form that can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if is_dataclass(value) and not isinstance(value, type):
        return [plain(getattr(value, each.name)) for each in fields(value)]
    return value.to_pylist() if isinstance(value, pa.Array) else value


def columns(manifest: Manifest) -> dict[str, Any]:
    return {name: plain(getattr(manifest, name)) for name in COLUMNS}


def no_original() -> Manifest:
    raise AssertionError("the original is not asked for")


def test_every_column_comes_back(tmp_path: Path, golden: GoldenWarehouse) -> None:
    for number, path in enumerate(share([*manifests(golden)], 3)):
        where = entry(tmp_path, f"manifest {number}")
        manifest = Manifest.read(path.read_bytes())
        where.put(manifest_columns(manifest))

        found = opened(where, no_original)

        assert found is not None
        assert columns(found) == columns(manifest)
        assert [found.entry(row) for row in range(len(found.kinds))] == [
            manifest.entry(row) for row in range(len(manifest.kinds))
        ]


@pytest.fixture
def manifest(golden: GoldenWarehouse) -> Manifest:
    return Manifest.read(next(manifests(golden)).read_bytes())


def test_what_nobody_asks_for_takes_no_memory(tmp_path: Path, manifest: Manifest) -> None:
    entry(tmp_path).put(manifest_columns(manifest))

    found = opened(entry(tmp_path), no_original)

    assert found is not None
    before = found.nbytes
    assert before < manifest.nbytes
    assert found.value_statistics.min_values[0] == manifest.value_statistics.min_values[0]
    assert found.nbytes == before
    found.derived.get_or_make("made of it", lambda: b"", lambda _: 1000)
    assert found.nbytes == before + 1000


def test_nothing_is_found_where_nothing_was_kept(tmp_path: Path, manifest: Manifest) -> None:
    entry(tmp_path).put(manifest_columns(manifest))

    assert opened(entry(tmp_path, "another form"), no_original) is None


def test_damaged_columns_are_taken_from_the_original(tmp_path: Path, manifest: Manifest) -> None:
    """Wherever the file is damaged; what was damaged is gone then."""
    entry(tmp_path).put(manifest_columns(manifest))
    [file] = (path for path in tmp_path.rglob("*") if path.is_file())
    written = file.read_bytes()
    asked: list[Manifest] = []

    def original() -> Manifest:
        asked.append(manifest)
        return manifest

    for start, stop in pairwise(range(0, len(written), 1 + len(written) // 50)):
        damaged = written[:start] + bytes(byte ^ 1 for byte in written[start:stop]) + written[stop:]
        # Mapped files are never written to, but replaced.
        file.unlink(missing_ok=True)
        file.write_bytes(damaged)
        where = entry(tmp_path)

        found = opened(where, original)

        if found is not None:
            assert columns(found) == columns(manifest)
        assert where.tiers.directory is not None
        assert where.tiers.directory.statistics().corrupt > 0
        assert not file.exists()
    assert len(asked) > 10


@pytest.mark.parametrize(
    "values",
    [
        np.arange(3),
        np.array([1.5, 2.5, 3.5]),
        np.zeros(3, np.bool_),
        pa.array([b"a", None, b"\xff"], pa.large_binary()),
    ],
)
def test_bounds_come_back(tmp_path: Path, values: Values) -> None:
    flags, counts = np.array([True, False, True]), np.array([1, 2, 3])
    bounds = ColumnBounds(values, values, flags, flags, counts, counts, flags, flags)

    store_value(entry(tmp_path), bounds)

    assert plain(load_value(entry(tmp_path))) == plain(bounds)


def test_integers_beyond_64_bits_are_not_kept(tmp_path: Path) -> None:
    store_value(entry(tmp_path), np.array([1 << 70], object))

    assert load_value(entry(tmp_path)) is None


FORMATS = {3: "6ce26855cd5f464a"}


def test_what_is_decoded_is_of_its_format(golden: GoldenWarehouse) -> None:
    """Releases of one format read each other's entries: who changes what a manifest becomes changes it."""
    digest = xxhash.xxh3_64()
    for path in manifests(golden):
        made = manifest_columns(Manifest.read(path.read_bytes()))
        digest.update(
            repr([(name, str(each.type), each.to_pylist()) for name, each in made.items()]).encode()
        )

    assert {FORMAT: digest.hexdigest()} == FORMATS
