"""The pipeline's Spark jobs: they make what the service serves.

Each is a function of a Spark session and a :class:`JobTable`. The driver reads metadata and commits; tasks
read data files with this package, which Spark's workers must therefore be able to import.

Besides what each says, jobs raise JobError (a task failed, or Spark gave up), CommitConflictError (other
commits came in between again and again) and PaimonIndexError (the table cannot be read). The table then is as
it was.
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
