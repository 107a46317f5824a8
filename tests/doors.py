"""Doors of rooms, as a table for docs/architecture.md: ``python -m tests.doors`` prints it."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent


def table() -> str:
    """The rows: a door, and its sentence."""
    return "\n".join(_row(door) for door in doors())


def doors() -> list[str]:
    """Modules by which other rooms come in, as the contracts of import-linter have them."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    rooms = [each for each in contracts if each["name"].endswith("by its doors")]
    inner = [line.partition(" -> ")[2] for room in rooms for line in room.get("ignore_imports", ())]
    return sorted([*(room["allowed_importers"][0] for room in rooms), *inner])


def exported(door: str) -> list[str] | None:
    """The names in ``__all__``; None of a module that is open as it stands."""
    for statement in _tree(door).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return names
    return None


def _row(door: str) -> str:
    text = ast.get_docstring(_tree(door)) or ""
    sentence = re.split(r"(?<=[.:])\s", " ".join(text.split("\n\n")[0].split()))[0].rstrip(".:")
    return f"| `{door}` | {sentence.replace('``', '`')} |"


def _tree(door: str) -> ast.Module:
    path = ROOT / door.replace(".", "/")
    package = path / "__init__.py"
    return ast.parse((package if package.exists() else path.with_suffix(".py")).read_text())


if __name__ == "__main__":
    print(table())  # noqa: T201 - for whoever updates the page
