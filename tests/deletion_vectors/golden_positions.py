"""Row positions as the golden documents write them."""

from typing import Any

from pyroaring import BitMap64


def golden_positions(recorded: Any) -> BitMap64:
    """Return a list of positions, or a union of arithmetic progressions."""
    if isinstance(recorded, list):
        return BitMap64(recorded)
    progressions = (
        range(rule["start"], rule["start"] + rule["step"] * rule["count"], rule["step"])
        for rule in recorded["rules"]
    )
    return BitMap64().union(*map(BitMap64, progressions))
