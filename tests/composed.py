"""The services of ``compose.yaml``, run without containers: the same commands in the same environment.

Only what containers bring is put in its place: addresses of services, and directories that are mounted.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import yaml
from moto.server import ThreadedMotoServer

from tests.served import Served, serving

ROOT: Final = Path(__file__).parents[1]


def composed() -> dict[str, Any]:
    """Return the file, with the defaults of its variables in their places."""
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", (ROOT / "compose.yaml").read_text())
    found: dict[str, Any] = yaml.safe_load(text)
    return found


@dataclass(frozen=True, slots=True)
class Running:
    """The service over its store, after the samples have been put there.

    Attributes:
        index: the first replica, before which the others have not started.
        places: what stands in the file, and what it is on this machine.
    """

    index: Served
    places: Mapping[str, str]

    def command(self, name: str) -> list[str]:
        """Return what a service of the file runs, on this machine."""
        return [_here(word, self.places) for word in composed()["services"][name]["entrypoint"]]

    @contextmanager
    def starting(self, name: str) -> Iterator[Served]:
        """Another service of the file that serves, for the time of a block."""
        with patch.dict(os.environ, _environment(name, self.places)), serving(None) as served:
            yield served


@contextmanager
def running(directory: Path) -> Iterator[Running]:
    """Start all but the shell; what goes into the volume ``catalog`` is below ``directory``."""
    image, catalog = directory / "image", directory / "catalog"
    for each in (image, catalog):
        each.mkdir()
    (image / "catalog.jar").touch()
    services = composed()["services"]
    store = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    store.start()
    places = {
        "http://store:9000": f"http://127.0.0.1:{store.get_host_and_port()[1]}",
        "/demo/": f"{ROOT}/demo/",
        "/examples/": f"{ROOT}/examples/",
        "/catalog/": f"{catalog}/",
        "/opt/paimon-index/jvm/": f"{image}/",
    }
    python = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    try:
        with patch.dict(os.environ, _environment("index", places) | {"PATH": python}):
            subprocess.run(  # noqa: S603 - our own file
                [_here(word, places) for word in services["samples"]["entrypoint"]], check=True
            )
            with serving(None) as index:
                yield Running(index, {**places, "http://index:8080": f"http://127.0.0.1:{index.port}"})
    finally:
        store.stop()


def _environment(name: str, places: Mapping[str, str]) -> dict[str, str]:
    own = composed()["services"][name]["environment"]
    return {variable: _here(value, places) for variable, value in own.items()}


def _here(text: str, places: Mapping[str, str]) -> str:
    for there, here in places.items():
        text = text.replace(there, here)
    return text
