"""The notebooks of ``examples/``, run cell by cell without Jupyter, and the outputs that lie in them."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tests.example_scripts import EXAMPLES

NOTEBOOKS: Final = EXAMPLES / "notebooks"

# Reads the sources of cells, and prints what each of them printed.
_RUN: Final = """
import contextlib, io, json, sys
printed, names = [], {"__name__": "__main__"}
for source in json.load(sys.stdin):
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(source, names)
    printed.append(output.getvalue())
print(json.dumps(printed))
"""


def cells(name: str) -> list[dict[str, Any]]:
    document = json.loads((NOTEBOOKS / name).read_text())
    return [cell for cell in document["cells"] if cell["cell_type"] == "code"]


def written_outputs(name: str) -> list[str]:
    return ["".join(line for shown in cell["outputs"] for line in shown["text"]) for cell in cells(name)]


def outputs(python: Path, name: str, environment: Mapping[str, str]) -> list[str]:
    """Return what each cell prints in an interpreter that is started beside the notebook, as Jupyter does."""
    finished = subprocess.run(  # noqa: S603 - our own cells
        [str(python), "-c", _RUN],
        input=json.dumps(["".join(cell["source"]) for cell in cells(name)]),
        check=False,
        capture_output=True,
        text=True,
        cwd=NOTEBOOKS,
        env=dict(environment),
    )
    assert finished.returncode == 0, finished.stderr
    printed: list[str] = json.loads(finished.stdout.splitlines()[-1])
    return printed
