"""What somebody at a terminal sees first of ``serve``; the whole of it is in ``test_serving``."""

from __future__ import annotations

import errno
import io
import sys
import threading
from pathlib import Path

import pytest

from app.cli.serve import explorer_place, show_banner
from app.opening import create_service
from app.settings import Settings


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
    monkeypatch.setattr(sys, "stdout", GoneTerminal())

    show_banner(settings, service)
    for thread in threading.enumerate():
        if thread.name == "banner":
            thread.join()
    service.close()

    assert failures == []
