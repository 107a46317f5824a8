"""What Iceberg's clients send. Members that are not known are left alone: other releases may have others."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import AliasGenerator, BaseModel, ConfigDict, Field, model_validator

from app.api.bodies import Body
from app.errors import RequestError
from app.iceberg.plan_tokens import PlanQuestion, write_filter

Id = Annotated[int, Field(ge=0, lt=1 << 63)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class IcebergBody(Body):
    """A JSON object whose members are called ``like-this``."""

    model_config = ConfigDict(
        strict=True, extra="ignore", frozen=True, alias_generator=AliasGenerator(validation_alias=_kebab)
    )


class PlanScanBody(IcebergBody):
    """``PlanTableScanRequest``: what to plan."""

    snapshot_id: Id | None = None
    select: list[str] | None = None
    filter: bool | dict[str, Any] | None = None
    min_rows_requested: Id | None = None
    case_sensitive: bool = True
    use_snapshot_schema: bool = False
    start_snapshot_id: Id | None = None
    end_snapshot_id: Id | None = None
    stats_fields: list[str] | None = None

    @model_validator(mode="after")
    def _one_kind_of_scan(self) -> Self:
        is_incremental = self.start_snapshot_id is not None or self.end_snapshot_id is not None
        if is_incremental and self.snapshot_id is not None:
            raise ValueError("snapshot-id goes with neither start-snapshot-id nor end-snapshot-id")
        if is_incremental and (self.start_snapshot_id is None or self.end_snapshot_id is None):
            raise ValueError("start-snapshot-id and end-snapshot-id go together")
        return self

    def to_question(self) -> PlanQuestion:
        """The planner's form. What is selected makes no difference to which files are read.

        Raises:
            RequestError: the filter nests too deeply.
        """
        try:
            written = None if self.filter is None else write_filter(self.filter)
        except RecursionError as error:
            raise RequestError("the filter nests too deeply") from error
        return PlanQuestion(
            snapshot_id=self.snapshot_id if self.end_snapshot_id is None else self.end_snapshot_id,
            use_snapshot_schema=self.use_snapshot_schema,
            filter=written,
            case_sensitive=self.case_sensitive,
            min_rows=self.min_rows_requested,
            statistics=tuple(self.stats_fields or ()),
            start_snapshot_id=self.start_snapshot_id,
        )


class FetchTasksBody(IcebergBody):
    """``FetchScanTasksRequest``: which part of a plan."""

    plan_task: str


class MetricsBody(IcebergBody):
    """``ReportMetricsRequest``: nothing of it is looked at but its kind."""

    report_type: str


class ListQuery(BaseModel):
    """Which page of a list."""

    model_config = ConfigDict(extra="ignore", frozen=True, populate_by_name=False)

    page_token: str | None = Field(None, alias="pageToken")
    page_size: Annotated[int, Field(ge=1)] | None = Field(None, alias="pageSize")
    parent: str | None = None


class LoadQuery(BaseModel):
    """Which snapshots the metadata has."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    snapshots: Literal["all", "refs"] = "all"
