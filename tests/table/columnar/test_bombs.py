"""Small ORC and Parquet files that would become large are errors of ours, and take no memory here."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import orc
from pyarrow import parquet as pq

from app.errors import CorruptMetadataError, MemoryShortError
from app.table.columnar.records import read_columnar
from app.table.manifests.manifest import Manifest
from app.table.records.columns import ArrayOf, Nullable, RecordOf
from app.table.records.expansion import claiming
from benchmarks.avro_schemas import MANIFEST
from benchmarks.columnar_files import write_orc, write_parquet
from tests.examples import share
from tests.tables import entry, record

MIB: Final = 1 << 20
INDEX: Final = bytes.fromhex("00054e4ed01a35ae")
WRITERS: Final = {"ORC": write_orc, "Parquet": write_parquet}
KINDS: Final = pytest.mark.parametrize("kind", sorted(WRITERS))


def manifest_of(kind: str, *changes: dict[str, Any]) -> bytes:
    return WRITERS[kind]([record(entry(delete_row_count=0, **each)) for each in changes], MANIFEST)


@pytest.mark.parametrize("kind", share(sorted(WRITERS), 2))
def test_keys_of_240_mb_are_damage_and_take_no_memory_of_the_reader(kind: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest"
    file.write_bytes(manifest_of(kind, *[{"min_key": bytes(60_000_000)}] * 4))
    script = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from app.errors import CorruptMetadataError\n"
        "from app.table.manifests.manifest import Manifest\n"
        "peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "before = peak()\n"
        "try:\n"
        "    Manifest.read(Path(sys.argv[1]).read_bytes())\n"
        "except CorruptMetadataError:\n"
        "    print(peak() - before)\n"
    )

    done = subprocess.run(  # noqa: S603 - Python
        [sys.executable, "-c", script, str(file)], capture_output=True, check=True, timeout=120
    )

    assert file.stat().st_size < 30_000
    assert int(done.stdout) * 1024 < 8 * MIB


REPEATED: Final = pa.DictionaryArray.from_arrays(pa.array(np.zeros(200, np.int32)), ["x" * MIB])
ITEMS: Final = pa.ListArray.from_arrays(pa.array([0, 20 * MIB], pa.int32()), pa.nulls(20 * MIB, pa.int8()))


@pytest.mark.parametrize(
    ("kind", "bomb", "complaint"),
    [
        ("Parquet", {"name": REPEATED}, "malloc of size"),
        ("Parquet", {"name": ["x"], "list": ITEMS}, "malloc of size"),
        ("ORC", {"name": ["x"], "list": ITEMS}, "records would take"),
        ("Parquet", {"name": [""] * 200_000}, "200000 rows in"),
        ("ORC", {"name": [""] * 200_000}, "200000 rows in"),
    ],
)
def test_what_repeats_counts_as_often_as_it_repeats(kind: str, bomb: dict[str, Any], complaint: str) -> None:
    table = pa.table(bomb)
    out = io.BytesIO()
    if kind == "ORC":
        orc.write_table(table, out, compression="zstd", dictionary_key_size_threshold=1.0)
    else:
        pq.write_table(table, out, compression="zstd", store_schema=False)
    data = out.getvalue()

    assert len(data) < 100_000
    with pytest.raises(CorruptMetadataError, match=complaint):
        read_columnar(kind, data, RecordOf({"name": "string", "list": Nullable(ArrayOf(Nullable("long")))}))


@KINDS
@pytest.mark.parametrize(
    "changes",
    [
        [{"extra_files": tuple(f"data-{number}.index" for number in range(50_000))}],
        [{"embedded_index": INDEX + bytes(600_000)}] * 50,
    ],
    ids=["a long list", "nearly empty bloom filters"],
)
def test_what_writers_write_is_read_however_well_it_compresses(
    kind: str, changes: list[dict[str, Any]]
) -> None:
    found = Manifest.read(manifest_of(kind, *changes))

    assert len(found.kinds) == len(changes)
    assert found.entry(0).file.extra_files == changes[0].get("extra_files", ())
    assert found.entry(0).file.embedded_index == changes[0].get("embedded_index")


@KINDS
@given(
    rest=st.binary(max_size=200),
    end=st.sampled_from([b"", b"ORC", b"PAR1", b"\x03ORC\x04", b"\x08\x00\x00\x00PAR1"]),
)
def test_any_bytes_are_damage(kind: str, rest: bytes, end: bytes) -> None:
    magic = {"ORC": b"ORC", "Parquet": b"PAR1"}[kind]

    with pytest.raises(CorruptMetadataError):
        Manifest.read(magic + rest + end)


@pytest.mark.parametrize(("megabytes", "claimed"), [(1, 64), (8, 128), (20, 256), (40, 400), (200, 1024)])
def test_memory_is_claimed_before_a_file_is_decoded(megabytes: int, claimed: int) -> None:
    def refuse(size: int) -> None:
        raise MemoryShortError(f"{size >> 20} MiB do not fit")

    with claiming(refuse), pytest.raises(MemoryShortError, match=f"^{claimed + megabytes + 24} MiB"):
        read_columnar("ORC", bytes(megabytes << 20), RecordOf({}))
