"""Draws values of columns, and conditions in SQL with literals of any type; Spark alone gives meaning."""

import datetime as dt
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Final
from zoneinfo import ZoneInfo

Column = tuple[str, str, Sequence[str]]
"""A column: name, type, and some of its values as texts."""

_WHOLE: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_ENDS: Final = sorted({end for bits in _WHOLE.values() for end in (2 ** (bits - 1) - 1, -(2 ** (bits - 1)))})
_DAYS: Final = (
    "2024-02-29",
    "1969-12-31",
    "1970-01-01",
    "0001-01-01",
    "9999-12-31",
    "2025-03-30",
    "1582-10-04",
)
_CLOCKS: Final = (
    *("2025-03-30 01:30:00", "2025-11-02 01:15:00.5", "1969-12-31 23:59:59.999999999", "1970-01-01 00:00:00"),
    *("2024-01-05 00:00:00.123456789", "2024-01-05 12:00:00", "1981-12-31 23:30:00", "1600-01-02 00:00:00"),
    *("9999-12-30 23:59:59.999", "1900-01-01 00:00:00.000001"),
)
"""None before 1582, which the engine reads from ORC as other days than it has written."""
_TEXTS: Final = (
    *(
        "",
        "a",
        "ab",
        "abc",
        "B",
        "é",
        "z" * 20,
        "12",
        "-7",
        "1.0",
        " 5",
        "1e2",
        "NaN",
        "Infinity",
        "true",
        "t",
    ),
    *("2024-01-05", "2024-01-05 12:00:00", "9223372036854775808", "128", "a%", "\U0001f600", "5 "),
)
_NUMBERS: Final = ("0", "1", "-1", "2", "5", "6", "7", "12", "-7", "100")
_FLOATS: Final = (
    "0.0",
    "-0.0",
    "1.5",
    "-2.25",
    "0.1",
    "NaN",
    "Infinity",
    "-Infinity",
    "1.0E20",
    "16777216",
    "5.0",
)

_FEW: Final = 3
TYPES: Final = (
    *("BOOLEAN", "TINYINT", "SMALLINT", "INT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL(5, 2)"),
    *(
        "DECIMAL(18, 3)",
        "DECIMAL(20, 0)",
        "DECIMAL(38, 10)",
        "STRING",
        "STRING",
        "VARCHAR(5)",
        "BYTES",
        "DATE",
    ),
    *("TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(9)"),
    *("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
)
_CASTS: Final = (
    *(
        "BOOLEAN",
        "TINYINT",
        "SMALLINT",
        "INT",
        "BIGINT",
        "FLOAT",
        "DOUBLE",
        "DECIMAL(5, 2)",
        "DECIMAL(38, 10)",
    ),
    *("STRING", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "BINARY", "DECIMAL(3, 0)"),
)
_PATTERNS: Final = ("a%", "%b", "_", "%", "1%", "a\\%", "")
_TESTS: Final = (
    *("IN", "IN", "BETWEEN", "BETWEEN", "NULL", "LIKE", "column", "alone"),
    *("called", "DISTINCT"),
)
_CALLS: Final = ("date({})", "year({})", "abs({})", "({} + 1)", "upper({})", "-{}", "to_date({})")
_AROUND: Final = (
    "-({})",
    "({} + 1)",
    "{} + INTERVAL 1 DAY",
    "date_add({}, 1)",
    "{}::STRING",
    "({})",
    "date({})",
)
_SYMBOLS: Final = ("=", "=", "<", "<=", ">", ">=", "<>", "<=>", "!=", "==")


def changes_of_clocks(rng: Random, zone: ZoneInfo) -> list[str]:
    """Wall clocks near a few changes of a zone's clocks, perhaps none."""
    step, found = dt.timedelta(days=7), []
    times = [dt.datetime(1900, 1, 1, tzinfo=dt.UTC) + step * number for number in range(7_000)]
    offsets = [time.astimezone(zone).utcoffset() for time in times]
    for at in rng.sample(range(len(times) - 1), len(times) - 1):
        if offsets[at] != offsets[at + 1]:
            low, high = times[at], times[at + 1]
            while high - low > dt.timedelta(minutes=1):
                middle = low + (high - low) / 2
                low, high = (
                    (middle, high) if middle.astimezone(zone).utcoffset() == offsets[at] else (low, middle)
                )
            clock = high.astimezone(zone) + rng.choice((-60, -30, -1, 0, 0, 1, 30)) * dt.timedelta(minutes=1)
            found.append(clock.strftime("%Y-%m-%d %H:%M:00"))
            if len(found) == _FEW:
                break
    return found


def value(rng: Random, written: str, clocks: Sequence[str] = ()) -> str | None:
    """Return a value of a type as a text, a clock perhaps one of ``clocks``; None is NULL."""
    name, _, rest = written.removesuffix(" NOT NULL").partition("(")
    if rng.random() < 0.15 and not written.endswith("NOT NULL"):
        return None
    if name in _WHOLE:
        end = 2 ** (_WHOLE[name] - 1)
        return rng.choice((*_NUMBERS, str(end - 1), str(-end)))
    if name == "DECIMAL":
        precision, scale = map(int, rest.rstrip(")").split(","))
        largest = 10**precision - 1
        number = rng.choice((0, 1, -1, 7, 12, 500, largest, -largest, rng.randint(-largest, largest)))
        number = max(-largest, min(number * rng.choice((1, 10**scale)), largest))
        text = str(abs(number)).rjust(scale + 1, "0")
        return ("-" if number < 0 else "") + (f"{text[:-scale]}.{text[-scale:]}" if scale else text)
    match name:
        case "BOOLEAN":
            return rng.choice(("true", "false"))
        case "FLOAT" | "DOUBLE":
            return rng.choice(_FLOATS)
        case "BYTES" | "VARBINARY" | "BINARY":
            return rng.choice(("", "00", "61", "6162", "ff"))
        case "DATE":
            return rng.choice(_DAYS)
        case "TIMESTAMP":
            some = clocks if clocks and rng.random() < 0.4 else _CLOCKS
            return clock(rng.choice(some), written)
    return rng.choice(_TEXTS)[: 5 if rest.startswith("5)") else None]


def clock(text: str, written: str) -> str:
    """Return a wall clock as a value of a type of timestamps, cut to its digits."""
    digits = int(written.partition("(")[2][0])
    seconds, _, fraction = text.partition(".")
    cut = seconds + (f".{fraction[:digits]}" if fraction and digits else "")
    return cut.replace(" ", "T") + "Z" if "LOCAL" in written else cut


def quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def named(name: str) -> str:
    return f"`{name}`"


def literal(rng: Random, column: Column) -> str:
    """Return a literal, of the column's type or of another one, often near one of its values."""
    _, written, values = column
    text = rng.choice(values) if values and rng.random() < 0.65 else None
    if rng.random() < 0.04:
        return rng.choice(("NULL", f"CAST(NULL AS {rng.choice(_CASTS)})"))
    if rng.random() < 0.06:
        return rng.choice(_AROUND).format(_plain(rng, written, text))
    if rng.random() < 0.08:
        return f"CAST({_plain(rng, written, text)} AS {rng.choice(_CASTS)})"
    return _plain(rng, written if rng.random() < 0.75 else rng.choice(TYPES), text)


def _plain(rng: Random, written: str, text: str | None) -> str:
    """Return a literal as a type has it; numbers of all forms, and beyond each type's ends."""
    name = written.partition("(")[0].removesuffix(" NOT NULL")
    if text is None:
        text = value(rng, written) or "0"
    if rng.random() < 0.12:
        return quoted(text)
    if name in _WHOLE or name in ("FLOAT", "DOUBLE", "DECIMAL"):
        return _number(rng, text)
    match name:
        case "BOOLEAN":
            return rng.choice(("TRUE", "FALSE", "1", "'t'", "'no'"))
        case "BYTES":
            return f"X'{text}'" if re.fullmatch("([0-9a-f]{2})*", text) else quoted(text)
        case "DATE" | "TIMESTAMP":
            return _time(rng, text if re.match(r"\d{4}-", text) else rng.choice(_DAYS + _CLOCKS))
    return quoted(text)


def _number(rng: Random, text: str) -> str:
    if not re.fullmatch(r"-?\d+(\.\d+)?(E\d+)?", text):
        return f"CAST({quoted(text)} AS {rng.choice(('DOUBLE', 'FLOAT'))})"
    if rng.random() < 0.3:
        beyond = rng.choice(_ENDS) + rng.choice((-1, 0, 0, 1))
        text = str(rng.choice((beyond, beyond, 10**20 - 1, -(10**25), 10**37)))
    if "." in text or "E" in text:
        return text + rng.choice(("", "", "D", "BD", "F"))
    return text + rng.choice(("", "", "", "", "L", "S", "Y", "D", "BD", "F", ".0", ".5", "e0", "0"))


def _time(rng: Random, text: str) -> str:
    clock = text.rstrip("Z").replace("T", " ")
    day = clock[:10]
    if rng.random() < 0.3:
        clock = f"{day} {rng.choice(('00:00:00', '23:59:59.999999', '02:30:00', '12:00:00'))}"
    zone = rng.choice(("", "", "Z", "+05:30", " America/New_York"))
    return rng.choice(
        (
            *(f"DATE '{day}'", f"TIMESTAMP_NTZ '{clock}'", f"TIMESTAMP '{clock}{zone}'"),
            *(f"TIMESTAMP_LTZ '{clock}'", quoted(clock), quoted(day), f"DATE '{day[:7]}'"),
        )
    )


def condition(rng: Random, columns: Sequence[Column]) -> str:
    """Return a condition of Spark SQL."""
    return _tree(rng, lambda: _test(rng, columns))


def _tree(rng: Random, test: Callable[[], str], depth: int = 0) -> str:
    if depth < 2 and rng.random() < 0.35:
        kind = rng.choice(("AND", "AND", "OR", "NOT"))
        if kind == "NOT":
            return f"NOT ({_tree(rng, test, depth + 1)})"
        parts = [_tree(rng, test, depth + 1) for _ in range(rng.choice((2, 2, 3)))]
        return f" {kind} ".join(f"({part})" for part in parts)
    return test()


def _test(rng: Random, columns: Sequence[Column]) -> str:  # noqa: C901 - one table
    column = rng.choice(columns)
    name = named(column[0])
    if rng.random() < 0.08:
        name = f"CAST({name} AS {rng.choice(_CASTS)})"
    elif rng.random() < 0.1:
        name = rng.choice(_CALLS).format(name)
    no = rng.choice(("", "", "NOT "))
    listed = ", ".join(literal(rng, column) for _ in range(rng.choice((1, 2, 3, 12))))
    pair = (literal(rng, column), literal(rng, column))
    match rng.choice(("test",) * 8 + _TESTS):
        case "called":
            return rng.choice(("startswith", "endswith", "contains")) + f"({name}, {pair[0]})"
        case "DISTINCT":
            return f"{name} IS {no}DISTINCT FROM {pair[0]}"
        case "IN":
            return f"{name} {no}IN ({listed})"
        case "BETWEEN":
            return f"{name} {no}BETWEEN {pair[0]} AND {pair[1]}"
        case "NULL":
            return f"{name} IS {no}{rng.choice(('NULL', 'NULL', 'TRUE', 'NULL'))}"
        case "LIKE":
            return f"{name} {no}LIKE {quoted(rng.choice(_PATTERNS))}"
        case "column":
            return f"{name} {rng.choice(_SYMBOLS)} {named(rng.choice(columns)[0])}"
        case "alone":
            return rng.choice(
                (f"{pair[0]} {no}IN ({name}, {pair[1]})", f"{pair[0]} BETWEEN {name} AND {pair[1]}")
            )
    parts = [name, rng.choice(_SYMBOLS), pair[0]]
    return " ".join(parts if rng.random() < 0.7 else reversed(parts))


def filter_text(rng: Random, columns: Sequence[Column]) -> str:
    """Return a filter's text, which Spark reads as well, and as the service does what that decides."""
    return _tree(rng, lambda: _told_test(rng, columns))


def _told_test(rng: Random, columns: Sequence[Column]) -> str:
    column = rng.choice(columns)
    name, no, written = named(column[0]), rng.choice(("", "", "NOT ")), column[1]
    pair = (_of_type(rng, column), _of_type(rng, column))
    match rng.choice(("test",) * 8 + ("IN", "IN", "BETWEEN", "NULL", "LIKE", "other")):
        case "IN":
            listed = ", ".join(
                _of_type(rng, column, is_listed=True) for _ in range(rng.choice((1, 2, 3, 12)))
            )
            return f"{name} {no}IN ({listed})"
        case "BETWEEN":
            return f"{name} {no}BETWEEN {pair[0]} AND {pair[1]}"
        case "NULL":
            return f"{name} IS {no}{'TRUE' if written.startswith('BOOLEAN') and no else 'NULL'}"
        case "LIKE" if written.startswith(("STRING", "VARCHAR", "CHAR")):
            return f"{name} {no}LIKE {quoted(rng.choice(_PATTERNS))}"
        case "other":
            return rng.choice(
                (f"{name} IS {no}DISTINCT FROM {pair[0]}", f"{name} = {named(rng.choice(columns)[0])}")
            )
    parts = [name, rng.choice(_SYMBOLS), pair[0]]
    return " ".join(parts if rng.random() < 0.7 else reversed(parts))


def _of_type(rng: Random, column: Column, *, is_listed: bool = False) -> str:
    """Return a literal of the column's type.

    In a list typed, since Spark compares lists with a text as text.
    """
    _, written, values = column
    name = written.partition("(")[0].removesuffix(" NOT NULL")
    text = rng.choice(values) if values and rng.random() < 0.65 else None
    if rng.random() < 0.04:
        return "NULL"
    if text is None:
        text = value(rng, written) or "0"
    if name in _WHOLE or name in ("FLOAT", "DOUBLE", "DECIMAL"):
        if not re.fullmatch(r"-?\d+(\.\d+)?(E-?\d+)?", text):
            return "0" if is_listed else quoted(text)
        return str(rng.choice(_ENDS) + rng.choice((-1, 0, 1))) if rng.random() < 0.1 else text
    match name:
        case "BOOLEAN":
            return rng.choice(("TRUE", "FALSE"))
        case "BYTES":
            return f"X'{text}'" if re.fullmatch("([0-9a-f]{2})*", text) else "X''"
        case "DATE" | "TIMESTAMP":
            clock = text if re.match(r"\d{4}-", text) else rng.choice(_DAYS + _CLOCKS)
            clock = clock.rstrip("Z").replace("T", " ")
            if name == "DATE":
                return rng.choice(("DATE " if is_listed else "", "DATE ")) + quoted(clock[:10])
            if "LOCAL" in written:
                typed = "TIMESTAMP " if is_listed else ""
                return rng.choice((typed, "TIMESTAMP ")) + quoted(clock + rng.choice(("Z", "+05:30")))
            day = f"DATE '{clock[:10]}'"
            return day if is_listed else rng.choice((quoted(clock), quoted(clock[:10]), day))
    return quoted(text)


def cell(written: str, text: str | None) -> str:
    """Return a value that the engine has read, as an expression of Spark's SQL."""
    name = written.removesuffix(" NOT NULL")
    kind = name.partition("(")[0]
    if kind == "TIMESTAMP":
        spark = "TIMESTAMP" if "LOCAL" in name else "TIMESTAMP_NTZ"
        if text is None:
            return f"CAST(NULL AS {spark})"
        # Spark has microseconds.
        cut = re.sub(r"(\.\d{6})\d+", r"\1", text)
        return f"{spark} '{cut}'"
    spark = {"BYTES": "BINARY", "VARBINARY": "BINARY", "VARCHAR": "STRING"}.get(kind, name)
    if text is None:
        return f"CAST(NULL AS {spark})"
    if spark == "BINARY":
        return f"X'{text}'"
    return f"date_from_unix_date({text})" if spark == "DATE" else f"CAST({quoted(text)} AS {spark})"
