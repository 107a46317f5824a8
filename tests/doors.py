"""Doors of rooms: the contract that others use, and their table, which ``python -m tests.doors`` prints."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from grimp import ImportGraph

ROOT: Final = Path(__file__).resolve().parent.parent


def table() -> str:
    """Return the rows: a door, and its sentence."""
    return "\n".join(_row(door) for door in doors())


class Doors(Contract):
    """Others import no module of a room but its doors, which the contract lists."""

    type_name = "doors"
    doors: Any = fields.ListField(subfield=fields.StringField())

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - its signature
        rooms = {_room(door) for door in self.doors}
        behind = [
            f"{importer} imports {module}"
            for module in sorted(graph.modules)
            if _room(module) in rooms and module not in self.doors
            for importer in sorted(graph.find_modules_that_directly_import(module))
            if _room(importer) != _room(module)
        ]
        return ContractCheck(kept=not behind, metadata={"behind": behind})

    def render_broken_contract(self, check: ContractCheck) -> None:
        for line in check.metadata["behind"]:
            output.print_error(line)


def doors() -> list[str]:
    """Modules by which other rooms come in, as the contract of import-linter has them."""
    linter = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    (contract,) = (each for each in linter["contracts"] if each["type"] == Doors.type_name)
    return sorted(contract["doors"])


def exported(door: str) -> list[str] | None:
    """Return the names in ``__all__``; None of a module that is open as it stands."""
    for statement in _tree(door).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            names: list[str] = ast.literal_eval(statement.value)
            return names
    return None


def _room(module: str) -> tuple[str, ...]:
    return tuple(module.split(".")[:2])


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
