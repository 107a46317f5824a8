"""What callers send to learn what changed; see :mod:`app.api.bodies`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from app.api.bodies import Alias, Count, Filter, TimeZone, VersionedBody
from app.planning.request.requests import PlanRequest, SelectionForm

_LONGEST_WAIT = 60.0


class ChangesBody(VersionedBody):
    """Which files came and went since a snapshot?"""

    example: ClassVar = {"from_snapshot_id": 3, "filter": "dt = '2025-08-01'", "wait_seconds": 20}

    from_snapshot_id: Count
    filter: Filter | None = Field(None, description="Files are told that can have a row that satisfies it.")
    alias: Alias | None = None
    time_zone: TimeZone | None = None
    uris: bool = Field(default=False, description="As of a plan.")
    wait_seconds: Annotated[float, Field(ge=0, le=_LONGEST_WAIT)] = Field(
        0.0, description="How long to wait until a file came or went that the filter allows."
    )

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
