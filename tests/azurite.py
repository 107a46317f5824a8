"""Azure's storage on this machine: azurite, which npm installs once into the user's cache directory."""

import os
import shutil
import subprocess
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

ACCOUNT: Final = "lake"
_KEY: Final = b64encode(b"a key of nobody's").decode()
_AZURITE: Final = "azurite@3.37.0"


@contextmanager
def serve(directory: Path, port: int = 0) -> Iterator[str]:
    """Serve what is kept in a directory, and yield the endpoint of blobs: ``http://127.0.0.1:PORT``."""
    with subprocess.Popen(  # noqa: S603 - fixed words
        [
            *(program(), "--location", str(directory), "--blobPort", str(port)),
            *("--skipApiVersionCheck", "--disableTelemetry", "--silent"),
        ],
        env=os.environ | {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{_KEY}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        listening = next(line for line in process.stdout if "successfully listens on" in line)
        try:
            yield listening.split()[-1]
        finally:
            # Killed, it would lose what it has not written yet.
            process.terminate()


def connection_string(endpoint: str, key: str = _KEY) -> str:
    return (
        f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};"
        f"BlobEndpoint={endpoint}/{ACCOUNT};"
    )


def program() -> str:
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paimon-index-tests"
    place = cache / _AZURITE.replace("@", "-")
    if not place.exists():
        _install(place)
    return str(place / "node_modules" / ".bin" / "azurite-blob")


def _install(place: Path) -> None:
    """Install beside the place and rename, so that nobody meets half of it."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("Azure was not tested: npm is not found, and azurite comes by it")
    place.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(dir=place.parent))
    try:
        installed = subprocess.run(  # noqa: S603 - fixed words
            [npm, "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(unfinished), _AZURITE],
            check=False,
            capture_output=True,
            cwd=unfinished,
        )
        if installed.returncode:
            pytest.skip(f"Azure was not tested: npm cannot get {_AZURITE} here")
        unfinished.rename(place)
    except OSError:
        # Another test process was first.
        if not place.exists():
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
