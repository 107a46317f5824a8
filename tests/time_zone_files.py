"""Zones by rules of a test's own, as files of the IANA database have them."""

import io
import struct
from zoneinfo import ZoneInfo


def zone_of_rules(rules: str) -> ZoneInfo:
    """A zone that has always had the same rules."""
    # One type of local time, which no moment has: the rules at the end go for all of them. See RFC 9636.
    header = struct.pack(">4sc15x6I", b"TZif", b"2", 0, 0, 0, 0, 1, 4)
    body = struct.pack(">iBB", 0, 0, 0) + b"LMT\0"
    return ZoneInfo.from_file(io.BytesIO(2 * (header + body) + b"\n" + rules.encode() + b"\n"))
