"""What a caller takes: ``Accept`` and ``Accept-Encoding``, lists of names with qualities."""

from __future__ import annotations

from enum import StrEnum


class PlanFormat(StrEnum):
    """The media types of a plan; among those that a caller likes equally, the first."""

    JSON = "application/json"
    LINES = "application/x-ndjson"
    ARROW = "application/vnd.apache.arrow.stream"


def qualities(header: str) -> dict[str, float]:
    """How much a caller likes each name, from 0 for not at all to 1; parameters but ``q`` are cut off."""
    found = {}
    for part in header.lower().split(","):
        name, *parameters = (each.strip() for each in part.split(";"))
        written = (each[2:] for each in (text.replace(" ", "") for text in parameters) if each[:2] == "q=")
        try:
            found[name] = float(next(written, "1"))
        except ValueError:
            found[name] = 0.0
    return found


def preferred_format(accept: str) -> PlanFormat:
    """The format to answer in; the first one for a caller who takes none of them."""
    liked = qualities(accept)

    def quality(media_type: PlanFormat) -> float:
        ranges = (media_type, f"{media_type.partition('/')[0]}/*", "*/*")
        return next((liked[each] for each in ranges if each in liked), 0.0)

    return max(PlanFormat, key=quality)
