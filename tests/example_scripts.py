"""The scripts of ``examples/``, and the output that stands in them beside what prints it."""

import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

EXAMPLES: Final = Path(__file__).parents[1] / "examples"
SAMPLES: Final = EXAMPLES.parent / "demo" / "warehouse"


def written_output(script: str) -> str:
    """Return the lines of a script that say what it prints: ``# > text``, in SQL ``-- > text``."""
    lines = re.findall(r"^(?:#|--) > (.*)$", (EXAMPLES / script).read_text(), re.MULTILINE)
    assert lines, f"{script} says nowhere what it prints"
    return "".join(f"{line}\n" for line in lines)


def output(command: Sequence[str], environment: Mapping[str, str]) -> str:
    """Return what a command prints in the clone, less the empty lines after Spark's tables."""
    finished = subprocess.run(  # noqa: S603 - our own scripts
        command, check=False, capture_output=True, text=True, cwd=EXAMPLES.parent, env=dict(environment)
    )
    assert finished.returncode == 0, finished.stderr
    return re.sub(r"\n+", "\n", finished.stdout)
