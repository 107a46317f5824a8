"""Columns in one line."""

from app.types import DataField, parse_type


def columns_of(written: str, first: int = 0) -> tuple[DataField, ...]:
    """Columns in the form ``name: TYPE; name: TYPE``, whose ids count from ``first``."""
    named = (each.split(": ") for each in written.split(";"))
    return tuple(
        DataField(number, name.strip(), parse_type(text.strip()))
        for number, (name, text) in enumerate(named, first)
    )
