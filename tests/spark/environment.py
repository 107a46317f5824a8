"""The environment with Spark.

pyspark is not a dependency of the project: it takes 400 MB.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.environments import python_with

REQUIREMENTS: Final = (
    *("py4j==0.10.9.9", "pyspark==4.0.5"),
    *("fastavro==1.13.1", "httpx==0.28.1", "numpy==2.4.6", "pandas==2.3.3", "pyarrow==26.0.1"),
    *("pyroaring==1.2.0", "grpcio==1.85.3", "grpcio-status==1.85.3", "googleapis-common-protos==1.76.0"),
)
"""The connector works with pyspark 4.0.x only, and that with pandas below 3; the rest is for our client."""
NEWEST: Final = ("pyspark>=4.3", "numpy==2.4.6", "pandas==2.3.3", "pyarrow==26.0.1")
"""Where a fault of Spark's is looked for until it is mended."""


def spark_python(requirements: Sequence[str] = REQUIREMENTS) -> Path:
    return python_with("spark", requirements, "pyspark (400 MB)")
