"""``paimon-index serve`` as a process: who may reach it, and how."""

import contextlib
import errno
import io
import os
import pty
import re
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import trustme
from typer.testing import CliRunner

from app.cli import program
from app.cli.serve import explorer_place, show_banner
from app.errors import SettingsError
from app.opening import create_service
from app.settings import Settings
from tests import tokens

PROGRAM = Path(sys.executable).with_name("paimon-index")
WAREHOUSE = Path(__file__).parents[2] / "demo" / "warehouse"
AT_ONCE = {"PAIMON_INDEX_DRAIN_SECONDS": "0"}  # as soon as it is told to end
SERVE = (str(PROGRAM), "serve", "--warehouse", f"main={WAREHOUSE}", "--port", "0")
EVERY_ADDRESS = "0.0.0.0"  # noqa: S104 - what is tested
SECRET = "pix_secret-of-the-test"  # noqa: S105 - likewise

_STARTED = "Application startup complete"
_LISTENING = re.compile(r"running on (https?)://(\S+?):(\d+) ")


class Server:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.lines: list[str] = []
        self.scheme, self.port = "", 0
        assert process.stdout is not None
        for line in process.stdout:
            self.lines.append(line)
            if found := _LISTENING.search(line):
                self.scheme, self.port = found[1], int(found[3])
                break
        else:
            raise AssertionError("".join(self.lines))
        self._output = process.stdout

    def wait_for(self, text: str, times: int) -> None:
        """Read on until a text was written as often as this."""
        while times > sum(text in line for line in self.lines):
            self.lines.append(next(self._output))

    def finish(self) -> None:
        self.lines.extend(self._output)
        self._output.close()

    def written(self) -> str:
        return "".join(self.lines)


@contextlib.contextmanager
def serving(*command: str, **environment: str) -> Iterator[Server]:
    process = subprocess.Popen(  # noqa: S603 - our own program
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={"PATH": os.environ["PATH"], "HOME": "", "PYTHONUNBUFFERED": "1", **AT_ONCE, **environment},
    )
    server = None
    try:
        server = Server(process)
        yield server
    finally:
        process.terminate()
        process.wait(60)
        if server is not None:
            server.finish()


def refused(*arguments: str, **environment: str) -> str:
    done = CliRunner().invoke(program, [*SERVE[1:], *arguments], env=environment)
    assert isinstance(done.exception, SettingsError)
    assert "\n" not in str(done.exception)
    return str(done.exception)


@pytest.fixture
def tokens_file(tmp_path: Path) -> Path:
    return tokens.write(tmp_path / "tokens.json", tokens.entry("test", SECRET))


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def certificate(authority: trustme.CA, tmp_path: Path) -> tuple[Path, Path]:
    issued = authority.issue_cert("localhost", "127.0.0.1")
    chain, key = tmp_path / "chain.pem", tmp_path / "key.pem"
    chain.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(key))
    return chain, key


def test_other_machines_are_not_listened_to_before_somebody_says_who_may_ask() -> None:
    message = refused("--host", EVERY_ADDRESS)

    for way_out in ("--tokens-file", "PAIMON_INDEX_TOKENS_FILE", "token new", "--no-auth", "127.0.0.1"):
        assert way_out in message


def test_a_tokens_file_that_cannot_be_read_stops_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "tokens.yaml"

    assert f"tokens file {missing} cannot be read" in refused("--tokens-file", str(missing))
    missing.write_text("tokens: 7")
    assert "one member, tokens" in refused(PAIMON_INDEX_TOKENS_FILE=str(missing))


def test_tokens_and_no_tokens_contradict_each_other(tokens_file: Path) -> None:
    assert "PAIMON_INDEX_AUTH=off" in refused("--tokens-file", str(tokens_file), "--no-auth")


def test_an_open_service_says_so_out_loud() -> None:
    with serving(*SERVE, "--host", EVERY_ADDRESS, "--no-auth") as server:
        answer = httpx.get(
            f"http://127.0.0.1:{server.port}/v1/config", headers={"Host": "index.example.com"}, timeout=120
        )

    assert answer.status_code == 200
    assert "server" not in answer.headers
    assert "PAIMON_INDEX_AUTH=off: everybody who reaches this service may read" in server.written()


@pytest.mark.long
def test_tokens_hold_for_every_address_and_worker(tokens_file: Path) -> None:
    options = ("--host", EVERY_ADDRESS, "--tokens-file", str(tokens_file), "--workers", "2")
    with serving(*SERVE, *options) as server:
        url = f"http://127.0.0.1:{server.port}/v1/config"
        server.wait_for(_STARTED, 2)
        answers = [
            httpx.get(url, headers=headers, timeout=120)
            for headers in ({}, tokens.bearer(SECRET))
            for _ in range(4)
        ]

    assert [answer.status_code for answer in answers] == [401] * 4 + [200] * 4
    assert SECRET not in server.written()


def test_without_tokens_this_machine_is_answered() -> None:
    with serving(*SERVE) as server:
        url = f"http://127.0.0.1:{server.port}/v1/config"
        near = httpx.get(url, timeout=120)
        rebound = httpx.get(url, headers={"Host": "evil.example"}, timeout=120)
        forwarded = httpx.get(url, headers={"X-Forwarded-For": "192.0.2.7"}, timeout=120)

    assert [answer.status_code for answer in (near, rebound, forwarded)] == [200, 403, 403]


def test_a_taken_port_is_told_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]

        assert refused("--port", str(port)) == (
            f"PAIMON_INDEX_PORT: cannot listen at 127.0.0.1:{port}: another process listens there: give "
            "another one with --port, or 0 for a free one"
        )


def test_somebody_at_a_terminal_sees_where_the_explorer_is_and_what_is_served(tmp_path: Path) -> None:
    ours, terminal = pty.openpty()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    served = ("--port", str(port), "--warehouse", f"empty={tmp_path}")
    process = subprocess.Popen(  # noqa: S603 - our own program
        [*SERVE, *served], stdout=terminal, stderr=subprocess.DEVNULL, env={**os.environ, **AT_ONCE}
    )
    os.close(terminal)
    with process, os.fdopen(ours) as screen:
        lines = [screen.readline().strip() for _ in range(3)]
        process.terminate()

    assert lines == [
        f"Explorer: http://localhost:{port}/ui (Ctrl-C ends the service)",
        f"Warehouse main at file://{WAREHOUSE}/: databases demo",
        f"Warehouse empty at file://{tmp_path}/: no database yet",
    ]


def test_https(certificate: tuple[Path, Path], authority: trustme.CA, tokens_file: Path) -> None:
    chain, key = map(str, certificate)
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    options = ("--tls-certificate", chain, "--tls-key", key, "--tokens-file", str(tokens_file))

    with serving(*SERVE, *options) as server:
        url = f"https://localhost:{server.port}/v1/config"
        answer = httpx.get(url, headers=tokens.bearer(SECRET), verify=trusting, timeout=120)
        with pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
            httpx.get(url, timeout=120)
        with pytest.raises(httpx.TransportError):
            httpx.get(f"http://localhost:{server.port}/v1/config", timeout=120)

    assert server.scheme == "https"
    assert answer.status_code == 200


def test_a_certificate_that_cannot_be_served_stops_the_start(
    certificate: tuple[Path, Path], authority: trustme.CA, tmp_path: Path
) -> None:
    chain, key = map(str, certificate)
    authority.issue_cert("localhost").private_key_pem.write_to_path(str(tmp_path / "other.pem"))

    missing = refused("--tls-certificate", str(tmp_path / "nowhere.pem"), "--tls-key", key)
    foreign = refused("--tls-certificate", chain, "--tls-key", str(tmp_path / "other.pem"))
    alone = refused("--tls-key", key)

    assert "No such file" in missing
    assert "key values mismatch" in foreign.lower().replace("_", " ")
    assert "needs PAIMON_INDEX_TLS_CERTIFICATE" in alone


def test_a_server_of_the_operators_own_answers_this_machine_only() -> None:
    uvicorn = (sys.executable, "-m", "uvicorn", "app.main:app", "--host", EVERY_ADDRESS, "--port", "0")
    warehouses = f'{{"main": "{WAREHOUSE}"}}'
    with serving(*uvicorn, PAIMON_INDEX_WAREHOUSES=warehouses) as server:
        near = httpx.get(f"http://127.0.0.1:{server.port}/v1/config", timeout=120)
        far = httpx.get(
            f"http://127.0.0.1:{server.port}/v1/config", headers={"X-Forwarded-For": "192.0.2.7"}, timeout=120
        )

    assert (near.status_code, far.status_code) == (200, 403)


@pytest.mark.parametrize(
    ("host", "port", "place"),
    [
        ("127.0.0.1", 80, "http://localhost:80/ui"),
        ("::", 80, "http://localhost:80/ui"),
        ("lake.example", 80, "http://lake.example:80/ui"),
        ("2001:db8::1", 80, "http://[2001:db8::1]:80/ui"),
        ("2001:db8::1", 0, "/ui at the address that the line below names"),
    ],
)
def test_the_explorer_is_named_by_a_url_that_a_browser_opens(host: str, port: int, place: str) -> None:
    assert explorer_place(Settings.load(host=host, port=port)) == place


class GoneTerminal(io.StringIO):
    """A terminal whose window was closed."""

    def isatty(self) -> bool:
        return True

    def write(self, _text: str) -> int:
        raise OSError(errno.EIO, "Input/output error")


def test_a_terminal_that_is_gone_does_not_end_the_service(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = Settings.load(warehouses={"main": str(tmp_path)})
    service = create_service(settings)
    failures: list[object] = []
    monkeypatch.setattr(threading, "excepthook", failures.append)

    with contextlib.redirect_stdout(GoneTerminal()):
        show_banner(settings, service)
        for thread in threading.enumerate():
            if thread.name == "banner":
                thread.join()
    service.close()

    assert failures == []
