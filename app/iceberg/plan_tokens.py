"""Plan ids and plan tasks: tokens that any replica can go on with, since they say all of it.

A token is base64 of a digest and of compressed JSON:

========== ================================================================================
member     meaning
========== ================================================================================
question   what was asked: filter, snapshot and so on, see :class:`PlanQuestion`
snapshot   number of the planned snapshot; null for a table without snapshots
schema     number of the schema that the filter was read in
tag        the tag that has the snapshot, where it has no file of its own any more
identity   digest of the version's identity, by which a table that is made anew is another
begin, end the part of the plan, by the numbers of files in their version; null is the end
========== ================================================================================

The digest is no secret, since a token gives no right that its holder does not have. It makes sure that a
token is of this release and of the table that is asked. What a token holds is checked as a request is.
"""

from __future__ import annotations

import base64
import zlib
from dataclasses import asdict, dataclass, fields
from typing import Annotated, Any, Final, Self

import orjson
from pydantic import Field, TypeAdapter, ValidationError

from app.errors import NotFoundError
from app.planning.request.requests import TableRef
from app.planning.version.version import Version
from app.release import __version__
from app.storage.ledger import LEDGER
from app.types.digest import DIGEST_BYTES, digest, request_digest

Number = Annotated[int, Field(ge=0, lt=1 << 63)]

LONGEST_ID: Final = 4_096
"""Characters of a plan id, which stands in the path of a request."""

_MOST_BYTES: Final = 64 << 20
_MEMORY_PER_BYTE: Final = 8
_LEVEL: Final = 6


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """What a client asks to be planned.

    Attributes:
        snapshot_id: None for the latest one.
        use_snapshot_schema: whether columns are those of the snapshot's schema.
        filter: an expression in parsed JSON; None for every row.
        case_sensitive: whether names have to be written as they are.
        min_rows: so many rows are enough, if nothing is filtered.
        statistics: names of columns to tell counts and bounds of.
        start_snapshot_id: what was appended since then; None for all rows.
    """

    snapshot_id: Number | None = None
    use_snapshot_schema: bool = False
    filter: Any = None
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
    tag: str | None
    identity: str
    begin: Number = 0
    end: Number | None = None

    @classmethod
    def of(cls, question: PlanQuestion, version: Version) -> Self:
        """The whole plan of a question."""
        return cls(question, version.snapshot_id, version.schema_id, version.resolved.tag, _identity(version))

    @staticmethod
    def read(text: str, table: TableRef) -> PlanToken:
        """The token in ``text``.

        Raises:
            NotFoundError: it is none, or one of another table or release.
            MemoryShortError: there is no memory for what it holds now.
        """
        try:
            content = base64.urlsafe_b64decode(text.encode("ascii"))
            written = zlib.decompressobj().decompress(content[DIGEST_BYTES:], _MOST_BYTES)
        except (ValueError, zlib.error):
            content = written = b""
        if not written or content[:DIGEST_BYTES] != _digest(written, table):
            raise NotFoundError("this release of the service has made no such plan of this table: plan again")
        LEDGER.require(_MEMORY_PER_BYTE * len(written), "a token of a plan")
        try:
            return _TOKENS.validate_json(written, strict=True)
        except ValidationError as error:
            raise NotFoundError("this token of a plan has been made by somebody else") from error

    def write(self, table: TableRef) -> str:
        """The token as text."""
        members = {each.name: getattr(self, each.name) for each in fields(self)}
        written = orjson.dumps({**members, "question": asdict(self.question)})
        return base64.urlsafe_b64encode(_digest(written, table) + zlib.compress(written, _LEVEL)).decode(
            "ascii"
        )

    def is_of(self, version: Version) -> bool:
        """Whether a version is the one that was planned."""
        return (self.snapshot, self.schema, self.identity) == (
            version.snapshot_id,
            version.schema_id,
            _identity(version),
        )


_TOKENS: Final = TypeAdapter(PlanToken)


def _digest(written: bytes, table: TableRef) -> bytes:
    return digest(request_digest("iceberg plan", __version__, table), written)


def _identity(version: Version) -> str:
    return digest(version.identity.encode()).hex()
