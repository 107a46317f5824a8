"""A server that is sent to many small files which expand, all at once."""

import os
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from benchmarks.events import DATABASE, ID
from tests.served import Served, serving
from tests.table.expanding import encoded, manifest_of, with_empty_extra_files
from tests.tables import MadeTable

MIB: Final = 1 << 20
CORRUPT: Final = (424, "urn:paimon-index:error:corrupt-metadata")
TABLES: Final = 16


def most_resident_bytes(served: Served) -> int:
    """Of the server since it started."""
    status = Path(f"/proc/{served.process.pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) << 10


def plan(served: Served, table: str) -> tuple[int, str]:
    answer = served.client.post(f"/v1/main/databases/{DATABASE}/tables/{table}/plan", json={})
    return answer.status_code, answer.json().get("type", "")


def test_bombs_are_corrupt_and_take_little_memory_however_many_there_are(tmp_path: Path) -> None:
    keys = manifest_of(*[encoded(min_key=bytes(60_000_000))] * 4)
    names = manifest_of(*[with_empty_extra_files(60_000_000)] * 4)
    assert max(len(keys), len(names)) < 20_000
    for number in range(TABLES):
        MadeTable.make(tmp_path, [ID], name=f"keys{number}").commit(*[keys] * 20)
        MadeTable.make(tmp_path, [ID], name=f"names{number}").commit(*[names] * 8)
    MadeTable.make(tmp_path, [ID], name="plain").commit(manifest_of(encoded()))

    with serving(tmp_path) as served, ThreadPoolExecutor(2 * TABLES) as callers:
        before = plan(served, "plain")
        resident_before = most_resident_bytes(served)
        tables = [f"{kind}{number}" for kind in ("keys", "names") for number in range(TABLES)]
        answers = set(callers.map(lambda table: plan(served, table), tables))
        resident = most_resident_bytes(served) - resident_before
        after = plan(served, "plain")

    assert (before, after) == ((200, ""), (200, ""))
    assert answers == {CORRUPT}
    assert resident < 500 * MIB


def test_files_that_are_larger_than_any_of_their_kind_are_not_read(tmp_path: Path) -> None:
    expected = {
        "snapshot/LATEST": (200, ""),
        "snapshot/snapshot-1": CORRUPT,
        "snapshot/snapshot-2": CORRUPT,
        "schema/schema-0": CORRUPT,
        "schema/schema-1": CORRUPT,
        "manifest/manifest-list-delta-1": CORRUPT,
        "manifest/manifest-1-0": CORRUPT,
    }
    for number, file in enumerate(expected):
        made = MadeTable.make(tmp_path, [ID], name=f"t{number}")
        made.commit(manifest_of(encoded()))
        (made.directory / file).touch()
        os.truncate(made.directory / file, 100 * MIB)

    with serving(tmp_path) as served, ThreadPoolExecutor(4) as callers:
        resident_before = most_resident_bytes(served)
        asked = 4 * [f"t{number}" for number in range(len(expected))]
        answers = list(callers.map(lambda table: plan(served, table), asked))
        resident = most_resident_bytes(served) - resident_before

    assert answers == 4 * list(expected.values())
    assert resident < 500 * MIB
