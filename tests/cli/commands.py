"""The command line as its user runs it: in a process of its own, which finds its libraries loaded."""

import os
import subprocess
import sys
import tempfile
from multiprocessing import get_context
from pathlib import Path
from typing import Final

PROGRAM: Final = Path(sys.executable).with_name("paimon-index")
WAREHOUSE: Final = Path(__file__).parents[2] / "demo" / "warehouse"

_OF_SEARCHES: Final = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
_PATIENCE_SECONDS: Final = 60
# Commands are forks of a process that has loaded what most of them need.
_FORKS: Final = get_context("forkserver")
_FORKS.set_forkserver_preload(["app.main", "app.cli.tables", "app.cli.build", "app.cli.advise"])


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Return what a command leaves, in an environment of these variables alone."""
    with tempfile.TemporaryDirectory() as directory:
        streams = [Path(directory) / name for name in ("stdout", "stderr")]
        process = _FORKS.Process(
            target=_command, args=(arguments, {**_OF_SEARCHES, "HOME": "", **environment}, streams)
        )
        process.start()
        process.join(_PATIENCE_SECONDS)
        process.kill()
        process.join()
        stdout, stderr = (stream.read_text() for stream in streams)
    return subprocess.CompletedProcess(arguments, process.exitcode or 0, stdout, stderr)


def _command(arguments: tuple[str, ...], environment: dict[str, str], streams: list[Path]) -> None:
    for number, stream in enumerate(streams, start=1):
        os.dup2(os.open(stream, os.O_WRONLY | os.O_CREAT), number)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [PROGRAM.name, *arguments]

    from app.cli import main  # noqa: PLC0415 - as the program does

    main()
