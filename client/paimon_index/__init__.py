"""Client of paimon-index: the files, rows and buckets of Apache Paimon tables that a query reads.

::

    from paimon_index import Client

    with Client("http://localhost:8080") as client:
        for file in client.plan("main.demo.sessions", filter="fee = 58.43"):
            print(file.path, file.selection)
"""

from paimon_index.async_client import AsyncClient
from paimon_index.client import Client
from paimon_index.errors import (
    DeadlineError,
    IncompleteAnswerError,
    PaimonIndexError,
    Problem,
    ServiceError,
    ServiceUnavailableError,
    UnavailableError,
    UndecidedConditionError,
    UnsupportedSessionError,
    UnsupportedTableError,
)
from paimon_index.options import IndexFile
from paimon_index.plans import AsyncPlan, Plan, PlanProgress
from paimon_index.results import PlannedFile
from paimon_index.selections import Selection

__all__ = [
    "AsyncClient",
    "AsyncPlan",
    "Client",
    "DeadlineError",
    "IncompleteAnswerError",
    "IndexFile",
    "PaimonIndexError",
    "Plan",
    "PlanProgress",
    "PlannedFile",
    "Problem",
    "Selection",
    "ServiceError",
    "ServiceUnavailableError",
    "UnavailableError",
    "UndecidedConditionError",
    "UnsupportedSessionError",
    "UnsupportedTableError",
]
