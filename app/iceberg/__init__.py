"""Apache Iceberg's REST catalog over Paimon tables: read only, with server-side scan planning.

Metadata is derived from a table's schemas, snapshots and plans, and is never stored. Tables and files that
clients would read wrongly are refused with the reason, see :mod:`app.iceberg.refusals`.
"""

from app.iceberg.catalog import IcebergCatalog
from app.iceberg.plan_tokens import LONGEST_ID, PlanQuestion, PlanToken, write_filter
from app.iceberg.refusals import reason_against
from app.iceberg.schema import ACCEPT, MILLIS

__all__ = [
    # The header in which clients list the types that they accept.
    "ACCEPT",
    # The longest id of a plan.
    "LONGEST_ID",
    # The word for timestamps of milliseconds.
    "MILLIS",
    # Answers of Iceberg's REST catalog.
    "IcebergCatalog",
    # A client's request to plan a scan.
    "PlanQuestion",
    # A part of the plan of a question about one version.
    "PlanToken",
    # The reason why Iceberg's clients cannot read a table.
    "reason_against",
    # Writes an expression as JSON text.
    "write_filter",
]
