"""Plan ids and plan tasks: tokens that any replica can go on with, since they say all of it.

A token is base64 of compressed JSON behind a digest of it:

========== ================================================================================
member     meaning
========== ================================================================================
question   what was asked: filter, snapshot and so on, see :class:`PlanQuestion`
snapshot   number of the planned snapshot; null for a table without snapshots
schema     number of the schema that the filter was read in
options    number of the schema whose options hold
tag        the tag that has the snapshot, where it has no file of its own any more
identity   digest of the version's identity, by which a table that is made anew is another
begin, end the part of the plan, by the numbers of files in their version; null is the end
========== ================================================================================

The digest is no secret, since a token gives no right that its holder does not have. It makes sure that a
token is of this release and of the table that is asked, before anything is unpacked. What a token holds is
checked as a request is, and a filter has to be written as it is written here, which keeps out what is no
JSON, nests too deeply or has half a surrogate pair.
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

LONGEST_ID: Final = 4_096
"""Characters of a plan id, which stands in the path of a request."""

_MOST_BYTES: Final = 64 << 20
_MOST_TIMES: Final = 1_032
"""As many bytes as zlib makes of one, at most."""
_MEMORY_PER_BYTE: Final = 8
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What a client asks to be planned.

    Attributes:
        filter: an expression as JSON text, since it may nest deeper than tokens; None for every row.
        min_rows: so many rows are enough, if nothing is filtered.
        statistics: names of columns to tell counts and bounds of.
        start_snapshot_id: what was appended since then; None for all rows.
    """

    snapshot_id: Number | None = None
    use_snapshot_schema: bool = False
    filter: str | None = None
    case_sensitive: bool = True
    min_rows: Number | None = None
    statistics: tuple[str, ...] = ()
    start_snapshot_id: Number | None = None


@dataclass(frozen=True, slots=True)
class PlanToken:
    """A part of the plan of a question about one version; the attributes are those of the table above."""

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
        """The whole plan of a question."""
        tag, identity = version.resolved.tag, _identity(version)
        return cls(question, version.snapshot_id, *version.schema.ids, tag, identity)

    @staticmethod
    def read(text: str, table: TableRef, longest: int | None = None) -> PlanToken:
        """The token that :meth:`write` made ``text`` of, where it has no more than ``longest`` characters.

        Raises NotFoundError: it is none, or one of another table or release. Raises MemoryShortError: there
        is no memory for what it holds now.
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
            raise NotFoundError("this token of a plan has been made by somebody else: plan again") from error
        return token

    def write(self, table: TableRef) -> str:
        """The token as text."""
        members = {member.name: getattr(self, member.name) for member in fields(self)}
        packed = zlib.compress(orjson.dumps({**members, "question": asdict(self.question)}), _LEVEL)
        return base64.urlsafe_b64encode(_digest(packed, table) + packed).decode("ascii")

    def is_of(self, version: Version) -> bool:
        """Whether a version is the one that was planned."""
        return (self.snapshot, self.schema, self.options, self.identity) == (
            version.snapshot_id,
            *version.schema.ids,
            _identity(version),
        )


_TOKENS: Final = TypeAdapter(PlanToken)


def write_filter(expression: object) -> str:
    """JSON text, in which a number with more digits than a double keeps is text, as decimals are.

    Raises RecursionError: it nests too deeply. Raises ValueError: it has NaN, an infinity, or a number of
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
    """Raises ValueError or RecursionError unless :func:`write_filter` can have made a text."""
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
    return digest(request_digest("iceberg plan", __version__, table), packed)


def _identity(version: Version) -> str:
    return digest(version.identity.encode()).hex()
