"""Suggestions for unknown words, for the ends of messages."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Final

_MOST_NAMES: Final = 1_000
# Characters of names to compare: this many take less than a tenth of a second.
_MOST_COMPARED: Final = 20_000
# Longest part of a name or word that counts; names of data files have some 60.
_MOST_CHARACTERS: Final = 64
_MOST_ALIKE: Final = 3
_MOST_LISTED: Final = 24
_ALIKE: Final = 0.6
# Characters of a word that is the beginning of a longer name.
_LEAST_BEGINNING: Final = 3

SYNONYMS: Final = {
    "condition": "filter",
    "order": "top_n",
    "order_by": "top_n",
    "orderby": "top_n",
    "predicate": "filter",
    "query": "filter",
    "sort": "top_n",
    "sql": "filter",
    "timestamp": "timestamp_millis",
    "where": "filter",
}
"""Other words for members of requests."""


def hint(
    word: str, candidates: Iterable[str], *, plural: str | None = None, also: Mapping[str, str] = {}
) -> str:
    """Return text after a message about an unknown word: similar names, and the existing ones.

    ``plural``: noun for the names. None lists none of them. ``also``: existing names by other words for
    them. Returns ``: did you mean 'fee'? Columns: day, fee``, or less.
    """
    names = list(islice(candidates, _MOST_NAMES + 1))
    names_alike = alike(word, names, also)
    meant = " or ".join(f"{name!r:.{_MOST_CHARACTERS}}" for name in names_alike)
    text = f": did you mean {meant}?" if names_alike else ""
    if plural is None:
        return text
    if not names:
        return f"; there are no {plural}"
    return f"{text} {plural.capitalize()}: {listed(names)}" if text else f"; {plural}: {listed(names)}"


def alike(word: str, candidates: Sequence[str], also: Mapping[str, str] = {}) -> list[str]:
    """Return the names that are most similar to a word, the best one first."""
    meant = also.get(word.lower())
    if meant is not None and meant in candidates:
        return [meant]
    folded: dict[str, str] = {}
    compared = 0
    for name in candidates:
        short = name.lower()[:_MOST_CHARACTERS]
        folded[short] = name
        compared += len(short)
        if compared > _MOST_COMPARED:
            break
    matches = difflib.get_close_matches(word.lower()[:_MOST_CHARACTERS], folded, _MOST_ALIKE, _ALIKE)
    if not matches and len(word) >= _LEAST_BEGINNING:
        matches = [name for name in folded if name.startswith(word.lower())][:_MOST_ALIKE]
    return [folded[name] for name in matches]


def listed(names: Sequence[str]) -> str:
    """Join names, or the first of many, with commas."""
    shown = [f"{name:.{_MOST_CHARACTERS}}" for name in names[:_MOST_LISTED]]
    if len(names) > len(shown):
        more = "many" if len(names) > _MOST_NAMES else len(names) - len(shown)
        shown.append(f"and {more} more")
    return ", ".join(shown)
