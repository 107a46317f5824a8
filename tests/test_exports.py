"""What packages offer to each other is what they list: no more, no less, and nothing that is not there."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType

import pytest

import app
import paimon_index

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
