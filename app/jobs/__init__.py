"""The pipeline's Spark jobs, which build what the service serves.

Each is a function of a Spark session and a :class:`JobTable`. The driver reads metadata and commits. Tasks
read data files with this package, which Spark's workers must therefore be able to import.

Every job may also raise JobError (a task failed, or Spark gave up), CommitConflictError (other commits kept
coming in between) and PaimonIndexError (the table cannot be read). Then the table is unchanged.
"""

from app.jobs.audit import AuditReport, audit
from app.jobs.build_index import IndexReport, build_index, drop_index
from app.jobs.delete import DeleteReport, check_deletable, delete
from app.jobs.job_table import JobTable
from app.jobs.plan import PlanReport, plan
from app.jobs.upsert import UpsertReport, rows_from_files, upsert

__all__ = [
    "AuditReport",
    "DeleteReport",
    "IndexReport",
    "JobTable",
    "PlanReport",
    "UpsertReport",
    "audit",
    "build_index",
    "check_deletable",
    "delete",
    "drop_index",
    "plan",
    "rows_from_files",
    "upsert",
]
