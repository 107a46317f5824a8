"""Values of columns by type, and literals of other types that somebody may compare them with.

Imports nothing but the standard library: the environment with pypaimon has no more of the project's.
"""

import datetime as dt
import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

NOON: Final = dt.datetime(2024, 1, 1, 12)  # noqa: DTZ001 - a wall clock
ODD_ZONE: Final = dt.timezone(dt.timedelta(hours=1, seconds=3))

VALUES: Final[dict[str, Sequence[Any]]] = {
    "BOOLEAN": [True, False],
    "TINYINT": [-128, 0, 127],
    "BIGINT NOT NULL": [-(1 << 63), 0, 1, (1 << 63) - 1],
    "FLOAT": [math.nan, -0.0, 0.0, 0.699999988079071, 0.5, math.inf],
    "DOUBLE": [math.nan, -0.0, 0.0, 0.7, 0.5, float(1 << 53)],
    "DECIMAL(9, 2)": [Decimal("0.01"), Decimal("-1.50"), Decimal(0), Decimal("9999999.99")],
    "STRING": ["", "a", "a ", "a%", "\n", "é", "\U0001f600", "\uffff"],
    "CHAR(3)": ["a", "a  ", "a\x01", "ab", "  "],
    "BYTES": [b"", b"\x00", b"\x80", b"\x7f"],
    "BINARY(2)": [b"\x00\x00", b"\x80\x00"],
    "DATE": [dt.date(1, 1, 1), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "TIME(3)": [dt.time(0), dt.time(1, 2, 3, 4_000)],
    "TIMESTAMP(3)": [NOON, NOON.replace(microsecond=1_000)],
    "TIMESTAMP(9)": [NOON, NOON.replace(microsecond=1)],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": [
        NOON.replace(tzinfo=dt.UTC),
        NOON.replace(tzinfo=dt.UTC, microsecond=1),
        dt.datetime(1900, 1, 1, tzinfo=dt.UTC),
    ],
}
OTHERS: Final[Sequence[Any]] = [
    *(None, True, 1, 0, 300, 1 << 64, 0.1, 0.7, 1e300, math.nan, "a", "%", "a_", "_", "\\%", "a\\", b"a"),
    *(Decimal("0.001"), Decimal("1E+30"), Decimal("NaN"), NOON, NOON.date(), NOON.time()),
    *(NOON.replace(tzinfo=ODD_ZONE), NOON.replace(microsecond=1)),
]
