"""Plan ids and plan tasks: self-contained tokens, with which any replica can continue.

A token is a digest and compressed JSON, in base64, which is validated like a request:

========== ================================================================================
member     meaning
========== ================================================================================
question   the request: filter, snapshot and so on, see :class:`PlanQuestion`
snapshot   number of the planned snapshot; null for a table without snapshots
schema     number of the schema that the filter was read in
options    number of the schema that options come from
tag        the tag that has the snapshot, where it has no file of its own any more
identity   digest of the version's identity, which changes when a table is recreated
begin, end the part of the plan, by the numbers of files in their version; null is the end
========== ================================================================================
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Final, Self

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from app.errors import NotFoundError
from app.planning import Version
from app.planning.request import TableRef
from app.release import __version__
from app.types.digest import DIGEST_BYTES, digest, request_digest
from app.work import LEDGER

Number = Annotated[int, Field(ge=0, lt=1 << 63)]

# Longest plan id, in characters: it becomes part of a URL.
LONGEST_ID: Final = 4_096

_MOST_BYTES: Final = 64 << 20
# Maximum expansion of zlib.
_MOST_TIMES: Final = 1_032
_MEMORY_PER_BYTE: Final = 8
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """Scan that a client requests."""

    snapshot_id: Number | None = None
    use_snapshot_schema: bool = False
    # An expression as JSON text, since it may nest deeper than tokens; None for every row.
    filter: str | None = None
    case_sensitive: bool = True
    # Rows that suffice, if nothing is filtered.
    min_rows: Number | None = None
    # Names of columns to return counts and bounds of.
    statistics: tuple[str, ...] = ()
    # Only rows appended after this snapshot; None for all rows.
    start_snapshot_id: Number | None = None


@dataclass(frozen=True, slots=True)
class PlanToken:
    """Part of a plan of one version. The module's table describes the attributes."""

    question: PlanQuestion
    snapshot: Number | None
    schema: Number
    options: Number
    tag: str | None
    identity: str
    begin: Number = 0
    end: Number | None = None

    @classmethod
    def of(cls, question: PlanQuestion, version: Version) -> Self:
        """Return the token of a whole plan."""
        tag, identity = version.resolved.tag, _identity(version)
        return cls(question, version.snapshot_id, *version.schema.ids, tag, identity)

    @staticmethod
    def read(text: str, table: TableRef, longest: int | None = None) -> PlanToken:
        """Decode a token of at most ``longest`` characters that :meth:`write` made.

        Raises NotFoundError if it is invalid, or of another table or release. Raises MemoryShortError if
        there is no memory for its content.
        """
        if longest is not None and len(text) > longest:
            raise _unknown()
        try:
            content = base64.urlsafe_b64decode(text.encode("ascii"))
        except ValueError:
            content = b""
        packed = content[DIGEST_BYTES:]
        if content[:DIGEST_BYTES] != _digest(packed, table):
            raise _unknown()
        try:
            with LEDGER.claim("decoding", path="a token of a plan") as claim:
                claim.grow_to(min(_MOST_BYTES, _MOST_TIMES * len(packed)))
                written = _unpack(packed)
                claim.grow_to(len(written) + _MEMORY_PER_BYTE * len(written))
                token = _TOKENS.validate_json(written, strict=True)
                if token.question.filter is not None:
                    _check_filter(token.question.filter)
        except (ValidationError, ValueError, RecursionError, zlib.error) as error:
            raise NotFoundError("this service did not make this plan token: plan again") from error
        return token

    def write(self, table: TableRef) -> str:
        """Encode the token."""
        members = {member.name: getattr(self, member.name) for member in fields(self)}
        packed = zlib.compress(orjson.dumps({**members, "question": asdict(self.question)}), _LEVEL)
        return base64.urlsafe_b64encode(_digest(packed, table) + packed).decode("ascii")

    def is_of(self, version: Version) -> bool:
        """Return True if a version is the planned one."""
        return (self.snapshot, self.schema, self.options, self.identity) == (
            version.snapshot_id,
            *version.schema.ids,
            _identity(version),
        )


_TOKENS: Final = TypeAdapter(PlanToken)


def write_filter(expression: object) -> str:
    """Format an expression as JSON text. Decimals with more digits than a double keeps become text.

    Raises RecursionError if it nests too deeply. Raises ValueError if it has NaN, an infinity, or a number of
    very many digits.
    """
    return json.dumps(
        expression,
        separators=(",", ":"),
        default=str,
        ensure_ascii=False,
        allow_nan=False,
        check_circular=False,
    )


def _check_filter(text: str) -> None:
    # A filter must be in the exact form of write_filter, which excludes invalid JSON, deep nesting and halves
    # of surrogate pairs.
    if write_filter(json.loads(text)) != text:
        raise ValueError("a filter in another form")


def _unpack(packed: bytes) -> bytes:
    unpacking = zlib.decompressobj()
    written = unpacking.decompress(packed, _MOST_BYTES)
    if not unpacking.eof:
        raise ValueError("more than a token has")
    return written


def _unknown() -> NotFoundError:
    return NotFoundError("this release of the service has made no such plan of this table: plan again")


def _digest(packed: bytes, table: TableRef) -> bytes:
    # The digest is not secret, since a token grants nothing that its holder lacks. It shows, before anything
    # is unpacked, that a token belongs to this release and table.
    return digest(request_digest("iceberg plan", __version__, table), packed)


def _identity(version: Version) -> str:
    return digest(version.identity.encode()).hex()
