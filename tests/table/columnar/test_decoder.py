"""The process that decodes ORC and Parquet: when there is one, what it holds, and how it ends."""

from __future__ import annotations

import io
import os
import re
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc

from app.errors import MemoryShortError
from app.table.columnar.decoder import Decoder

MEMORY_BYTES = 64 << 20
DECODES = f"""
from app.table.columnar.decoder import DECODER
def rows():
    answer = DECODER.decode("ORC", bytes.fromhex({{data!r}}), ["id"], {MEMORY_BYTES})
    return len(answer.stream)
"""


def written(rows: int) -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.table({"id": range(rows), "other": range(rows)}), out)
    return out.getvalue()


def ids(decoder: Decoder, rows: int) -> list[int]:
    answer = decoder.decode("ORC", written(rows), ["id"], MEMORY_BYTES)
    assert not answer.fault
    found: dict[str, list[int]] = pa.ipc.open_stream(answer.stream).read_all().to_pydict()
    assert list(found) == ["id"]
    return found["id"]


@pytest.fixture
def decoder() -> Iterator[Decoder]:
    decoder = Decoder()
    yield decoder
    decoder.close()


def python(script: str) -> str:
    done = subprocess.run(  # noqa: S603 - Python
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=120
    )
    return done.stdout


def test_one_process_decodes_file_after_file(decoder: Decoder) -> None:
    assert decoder.process_id is None

    assert ids(decoder, 3) == [0, 1, 2]
    first = decoder.process_id
    with ThreadPoolExecutor(8) as threads:
        found = list(threads.map(lambda rows: ids(decoder, rows), range(1, 60)))

    assert found == [list(range(rows)) for rows in range(1, 60)]
    assert decoder.process_id == first


def test_it_holds_nothing_of_the_process_that_started_it(decoder: Decoder) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        ids(decoder, 1)

        files = Path(f"/proc/{decoder.process_id}/fd")
        held = {str(each.readlink()) for each in files.iterdir()}

    assert len(held) == 3
    assert {"/dev/null", f"/proc/{decoder.process_id}/statm"} < held


@pytest.mark.parametrize("zone", [b"GMT", b"UTC"])
def test_timestamps_of_orc_are_read_without_opening_rules_of_zones(decoder: Decoder, zone: bytes) -> None:
    out, at = io.BytesIO(), datetime(2026, 11, 26, tzinfo=UTC)
    rows = pa.table({"at": pa.array([at], pa.timestamp("us"))})
    orc.write_table(rows, out, compression="uncompressed")

    answer = decoder.decode("ORC", out.getvalue().replace(b"GMT", zone), ["at"], MEMORY_BYTES)

    assert not answer.fault
    assert (
        pa.ipc.open_stream(answer.stream).read_all()["at"].cast(pa.int64())[0].as_py()
        == at.timestamp() * 10**9
    )


def test_it_knows_nothing_of_the_environment(decoder: Decoder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "pix_SECRET")
    ids(decoder, 1)

    environment = Path(f"/proc/{decoder.process_id}/environ").read_bytes()

    assert b"PYTHONPATH" in environment
    assert b"SECRET" not in environment


def test_it_can_open_and_start_nothing(decoder: Decoder) -> None:
    ids(decoder, 1)

    limits = Path(f"/proc/{decoder.process_id}/limits").read_text()
    state = Path(f"/proc/{decoder.process_id}/status").read_text()

    (open_files,) = re.findall(r"^Max open files +(\d+)", limits, re.MULTILINE)
    descriptors = [int(each.name) for each in Path(f"/proc/{decoder.process_id}/fd").iterdir()]
    assert sorted(descriptors) == list(range(int(open_files)))
    assert re.search(r"^Max processes +0 +0 ", limits, re.MULTILINE)
    assert re.search(r"^Max file size +0 +0 ", limits, re.MULTILINE)
    assert not re.search(r"^Uid:\s+0\s", state, re.MULTILINE), "the limits hold for anybody but the superuser"


def test_one_that_was_killed_is_started_anew(decoder: Decoder) -> None:
    ids(decoder, 1)
    first = decoder.process_id
    assert first is not None
    os.kill(first, signal.SIGKILL)
    os.waitid(os.P_PID, first, os.WEXITED | os.WNOWAIT)

    assert ids(decoder, 2) == [0, 1]
    assert decoder.process_id not in {None, first}


def test_one_that_takes_too_long_is_ended(decoder: Decoder) -> None:
    ids(decoder, 1)
    first = decoder.process_id
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    decoder.seconds = 0.05

    answer = decoder.decode("ORC", written(1), ["id"], MEMORY_BYTES)

    assert answer.fault == "it takes more than 0.05 s"
    assert not answer.may_be_short
    decoder.seconds = 30
    assert ids(decoder, 2) == [0, 1]


@pytest.mark.parametrize(
    ("program", "complaint"),
    [
        ("/does/not/exist", "No such file or directory: '/does/not/exist'"),
        ("/bin/false", "ended with status 1"),
    ],
)
def test_one_that_cannot_be_started_is_told(
    decoder: Decoder, monkeypatch: pytest.MonkeyPatch, program: str, complaint: str
) -> None:
    monkeypatch.setattr(sys, "executable", program)

    with pytest.raises(MemoryShortError, match=complaint):
        ids(decoder, 1)


def test_it_ends_with_the_process_that_started_it() -> None:
    script = DECODES.format(data=written(1).hex()) + "rows(); print(DECODER.process_id, flush=True); input()"
    with subprocess.Popen(  # noqa: S603 - Python
        [sys.executable, "-c", script], stdin=-1, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        process = os.pidfd_open(int(parent.stdout.readline()))
        parent.kill()
    ended = select.poll()
    ended.register(process, select.POLLIN)

    assert ended.poll(20_000)
    os.close(process)


def test_a_process_that_is_forked_has_one_of_its_own() -> None:
    script = DECODES.format(data=written(1).hex()) + (
        "import os\n"
        "first = rows(), DECODER.process_id\n"
        "if not os.fork():\n"
        "    same = rows() == first[0] and DECODER.process_id != first[1]\n"
        "    DECODER.close()\n"
        "    os._exit(0 if same else 1)\n"
        "print(os.wait()[1], (rows(), DECODER.process_id) == first)"
    )

    assert python(script).split() == ["0", "True"]


def test_who_meets_no_such_file_has_no_such_process() -> None:
    script = (
        "import app.library, app.table, app.main\n"
        "from app.table.columnar.decoder import DECODER\n"
        "print(DECODER.process_id)"
    )

    assert python(script) == "None\n"
