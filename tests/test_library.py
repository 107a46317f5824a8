"""What the library and packages offer: examples of the page run, and no web framework comes along."""

import importlib
import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import app
import paimon_index
from app import library

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "library.md").read_text()


def test_the_examples_of_the_page_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    names: dict[str, Any] = {}
    examples = re.findall(r"^```python\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    for example in examples:
        exec(example, names)  # noqa: S102 - our own page

    printed = capsys.readouterr().out
    assert len(examples) >= 4
    for line in ("3 of 10 files", "True True", "hash_dynamic", "rows are deleted", "FilterError"):
        assert line in printed


def test_the_package_offers_it() -> None:
    assert app.open_service is library.open_service
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = app.nothing


def test_importing_it_imports_no_web_framework() -> None:
    code = "import sys; from app import open_service; print(*sys.modules)"

    found = subprocess.run(  # noqa: S603 - our own interpreter
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, cwd=ROOT
    )

    assert {"fastapi", "starlette", "uvicorn", "typer"} & set(found.stdout.split()) == set()


# The package of commands is a program: nobody imports it.
PACKAGES = [
    f"app.{each.name}" for each in pkgutil.iter_modules(app.__path__) if each.ispkg and each.name != "cli"
]


@pytest.mark.parametrize("name", [*PACKAGES, paimon_index.__name__])
def test_a_package_lists_exactly_the_names_that_it_imports_for_others(name: str) -> None:
    package = importlib.import_module(name)
    listed = getattr(package, "__all__", ())

    found = {
        each
        for each, value in vars(package).items()
        if not each.startswith("_") and not isinstance(value, ModuleType)
    }

    assert found - {"annotations"} == set(listed)
    assert len(set(listed)) == len(listed)
