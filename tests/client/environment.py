"""The environment with pypaimon: it needs an older pyarrow than the service."""

from pathlib import Path
from typing import Final

from tests.environments import python_with

_REQUIREMENTS: Final = (
    *("pypaimon==2.1.0", "pypaimon-rust==0.4.0", "pyarrow==19.0.1", "polars==1.44.2", "pandas==2.3.3"),
    *("fastavro==1.13.1", "httpx==0.28.1", "numpy==2.4.6", "pyroaring==1.2.0", "duckdb==2.0.1"),
)


def pypaimon_python() -> Path:
    return python_with("pypaimon", _REQUIREMENTS)
