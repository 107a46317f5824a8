"""HTTP requests as values, for both clients, without any network access."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from urllib.parse import quote

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from paimon_index.options import IndexFile

JSON: Final = "application/json"
ARROW: Final = "application/vnd.apache.arrow.stream"

_PART: Final = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


class TableName(NamedTuple):
    """A table, by the service's name of the warehouse."""

    warehouse: str
    database: str
    table: str

    @classmethod
    def parse(cls, text: str) -> TableName:
        """Parse ``warehouse.database.table``, with back quotes around parts with dots.

        Raises ValueError if it has another form. Raises TypeError if it is not text.
        """
        if not isinstance(text, str):
            raise TypeError(
                f"a table is named by a text, warehouse.database.table, found {type(text).__name__}"
            )
        parts, at = [], 0
        while match := _PART.match(text, at):
            quoted, plain = match.groups()
            parts.append(plain or quoted.replace("``", "`"))
            at = match.end()
            if text[at : at + 1] != ".":
                break
            at += 1
        if at != len(text) or len(parts) != 3:  # noqa: PLR2004 - the three members
            raise ValueError(f"{text!r} is not a table: expected warehouse.database.table")
        return cls(*parts)

    @property
    def path(self) -> str:
        """The table's path in the API."""
        warehouse, database, table = (quote(part, safe="") for part in self)
        return f"/v1/{warehouse}/databases/{database}/tables/{table}"


@dataclass(frozen=True, slots=True)
class Request:
    """One HTTP request: a percent-encoded path under the base URL, and a body of JSON.

    ``key`` chooses the base URL: requests of one table share their path's front.
    """

    method: Literal["GET", "POST"]
    path: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    accept: str = JSON
    key: str = ""


def get(path: str, parameters: Mapping[str, Any] | None = None) -> Request:
    """Make a request without a body. Objects among the parameters are sent as JSON."""
    written = {
        name: value if isinstance(value, str) else _text(value)
        for name, value in (parameters or {}).items()
        if value is not None
    }
    return Request("GET", path, written, key=path)


def post(path: str, members: Mapping[str, Any], accept: str = JSON) -> Request:
    """Make a request with a JSON body. Omit None, and move a location to the query."""
    given = {name: value for name, value in members.items() if value is not None}
    parameters = {name: given.pop(name) for name in ("location",) if name in given}
    return Request("POST", path, parameters, _text(given).encode(), accept, path)


def under(table: str, what: str) -> str:
    """Return the path of a table named ``warehouse.database.table``, followed by ``what``."""
    return f"{TableName.parse(table).path}{what}"


def key_of(request: Request) -> str:
    """Return the key that chooses the base URL: the table's path."""
    # All requests about a table go to one base URL, whose caches are warm for it.
    return "/".join(request.key.split("/")[:7])


def index_file_members(file: IndexFile) -> dict[str, Any]:
    """Return members of a body for an index file."""
    content = None if file.content is None else base64.b64encode(file.content).decode()
    members = {"path": file.path, "content": content, "name": file.name}
    return {name: value for name, value in members.items() if value is not None}


def _text(value: object) -> str:
    return json.dumps(_plain(value), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _plain(value: Any) -> Any:
    match value:
        case float() if not math.isfinite(value):
            # JSON has no such numbers; the service reads these texts.
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case dict():
            return {key: _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes():
            return {"$hex": value.hex()}
        case decimal.Decimal():
            # A JSON number would lose digits in many readers.
            return format(value, "f")
        case dt.date() | dt.time():  # a datetime is a date
            return value.isoformat()
        case pa.Array() | pa.ChunkedArray() if pa.types.is_timestamp(value.type) or pa.types.is_date(
            value.type
        ):
            return _texts_of_times(value)
        case pa.Array() | pa.ChunkedArray():
            return _plain(value.to_pylist())
    return value


def _texts_of_times(values: pa.Array | pa.ChunkedArray) -> list[str | None]:
    """Return timestamps and dates as texts, many times as fast as value by value.

    Raises ValueError if a timestamp is the smallest of its unit, which NumPy takes for null.
    """
    # By NumPy: Arrow's texts are wrong beyond the year 32767, and need a database of time zones.
    is_date = pa.types.is_date(values.type)
    zone = "" if is_date or values.type.tz is None else "Z"
    times = values.to_numpy(zero_copy_only=False)
    if np.count_nonzero(np.isnat(times)) != values.null_count:
        raise ValueError(
            f"a value of {values.type} is the smallest of its unit, which is not sent: send its text"
        )
    texts = np.datetime_as_string(times.astype("datetime64[D]") if is_date else times).tolist()
    return [None if text == "NaT" else _with_whole_year(text) + zone for text in texts]


def _with_whole_year(text: str) -> str:
    """Pad the year of NumPy's text to four digits. More digits get a sign."""
    if text[0] == "-":
        year, rest = text[1:].split("-", 1)
        return f"-{year.zfill(4)}-{rest}"
    return text if text[4] == "-" else f"+{text}"
