"""What callers send to learn what changed; see :mod:`app.api.bodies`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from app.api.bodies import Alias, Count, Filter, Name, TimeZone, VersionedBody
from app.planning.request.requests import PlanRequest, SelectionForm

_LONGEST_WAIT = 60.0


class ChangesBody(VersionedBody):
    """Which files came and went since an answer, or between two versions?"""

    example: ClassVar = {"from_snapshot_id": 3, "snapshot_id": 5, "filter": "dt = '2025-08-01'"}

    from_token: Name | None = Field(
        None, description="`next_from_token` of an answer: the changes since the version of that answer."
    )
    from_snapshot_id: Count | None = Field(
        None,
        description="The changes since the snapshot that has this number now; with the later version named, "
        "too. Absent, as `from_token`: nothing has changed yet, and `next_from_token` goes on from there.",
    )
    filter: Filter | None = Field(None, description="Files are told that can have a row that satisfies it.")
    alias: Alias | None = None
    time_zone: TimeZone | None = None
    uris: bool = Field(default=False, description="As of a plan.")
    wait_seconds: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = Field(
        0.0, description="How long to wait until a file came or went that the filter allows."
    )

    @model_validator(mode="after")
    def _from_one_version(self) -> Self:
        if self.from_token is not None and self.from_snapshot_id is not None:
            raise ValueError("at most one of from_token and from_snapshot_id names the earlier version")
        is_named = (self.snapshot_id, self.tag, self.timestamp_millis) != (None, None, None)
        if self.from_snapshot_id is not None and not is_named:
            raise ValueError(
                "a number does not tell which snapshot was meant: after a rollback another one has it. To "
                "follow a table, send the next_from_token of the last answer as from_token (the first one "
                "has neither); to compare two versions, name the later one, too, such as by snapshot_id"
            )
        if self.from_token is None and self.from_snapshot_id is None and self.wait_seconds:
            raise ValueError("wait_seconds waits for changes since an answer: send its next_from_token, too")
        return self

    def to_request(self) -> PlanRequest:
        """The planner's form."""
        return PlanRequest(
            selector=self.selector(),
            filter=self.filter,
            alias=self.alias,
            selection=SelectionForm.COUNT,
            time_zone=self.time_zone,
            uris=self.uris,
        )
