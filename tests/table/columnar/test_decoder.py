"""The process that decodes ORC and Parquet: when there is one, what it holds, and how it ends."""

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

from app.errors import DeadlineExceededError, MemoryShortError
from app.table.columnar.decoder import DECODER, DecodedStream, Decoder
from app.table.columnar.records import read_columnar
from app.table.records.columns import RecordOf
from app.table.records.expansion import claiming
from app.work import time_limit
from app.work.cores import CORES
from app.work.memory import HELPERS, resident_bytes, resident_bytes_of

MEMORY_BYTES = 64 << 20
DECODES = f"""
from app.table.columnar.decoder import DECODER
def rows():
    with DECODER.turn() as turn:
        answer = turn.decode("ORC", bytes.fromhex({{data!r}}), ["id"], {MEMORY_BYTES})
    return len(answer.stream)
"""


def written(rows: int) -> bytes:
    out = io.BytesIO()
    orc.write_table(pa.table({"id": range(rows), "other": range(rows)}), out)
    return out.getvalue()


def decode(decoder: Decoder, data: bytes, *columns: str) -> DecodedStream:
    with decoder.turn() as turn:
        return turn.decode("ORC", data, columns, MEMORY_BYTES)


def ids(decoder: Decoder, rows: int) -> list[int]:
    answer = decode(decoder, written(rows), "id")
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


def test_one_that_stands_still_holds_up_no_other_warehouse(decoder: Decoder) -> None:
    def rows(warehouse: str) -> int:
        with CORES.computing(warehouse):
            return len(ids(decoder, 3))

    def process_of(warehouse: str) -> int:
        with CORES.computing(warehouse):
            assert rows(warehouse) == 3
            assert decoder.process_id is not None
            return decoder.process_id

    stopped = process_of("stands still")
    assert process_of("another") != stopped
    os.kill(stopped, signal.SIGSTOP)
    with ThreadPoolExecutor(2) as threads:
        held_up = threads.submit(rows, "stands still")
        try:
            assert threads.submit(rows, "another").result() == 3
            assert not held_up.done()
        finally:
            os.kill(stopped, signal.SIGCONT)

        assert held_up.result() == 3


def test_those_that_nobody_asks_give_way_where_memory_is_short(decoder: Decoder) -> None:
    for warehouse in ("a", "b"):
        with CORES.computing(warehouse):
            ids(decoder, 1)
            assert decoder.process_id is not None
            process = os.pidfd_open(decoder.process_id)
    one = decoder.weight // 2
    assert one > 5 << 20

    decoder.shrink(0, unused_seconds=60)
    assert decoder.weight > one, "they were asked lately"
    with decoder.turn("a"):
        decoder.shrink(0)
        assert decoder.weight == 0
        assert select.select([process], [], [], 0)[0]
        os.close(process)
        with CORES.computing("a"):
            assert decoder.process_id is not None, "somebody has it"
    assert 0 < decoder.weight < 2 * one


def test_their_memory_counts_as_that_of_the_process_that_started_them(decoder: Decoder) -> None:
    ids(decoder, 1)
    assert decoder.process_id is not None
    its_own = resident_bytes_of(str(decoder.process_id))

    assert its_own > 5 << 20
    assert resident_bytes() >= resident_bytes_of("self") // 2 + its_own
    number = str(decoder.process_id)
    decoder.close()
    assert number not in HELPERS


def test_what_decoding_takes_is_claimed_once_a_file_is_not_waiting() -> None:
    def is_free() -> bool:
        try:
            with time_limit(0.01), DECODER.turn():
                return True
        except DeadlineExceededError:
            return False

    frees = []
    with ThreadPoolExecutor(1) as threads, claiming(lambda _: frees.append(threads.submit(is_free).result())):
        read_columnar("ORC", written(3), RecordOf({"id": "long"}))

    assert frees
    assert not any(frees)


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

    answer = decode(decoder, out.getvalue().replace(b"GMT", zone), "at")

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

    answer = decode(decoder, written(1), "id")

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
