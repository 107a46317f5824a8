"""Answers requests about tables and index files, without HTTP.

:class:`~app.planning.service.IndexService` answers the requests of the HTTP layer and the command line.
Advice, aggregates, Iceberg's catalog and jobs also use the steps of a plan. A package imports from lower
lines only:

======================================== =============================================================
``watch``                                new snapshots of tables, loaded ahead of requests
``service``                              one method for each question
``tables``, ``service_caches``           names and versions of tables; all caches together
``plans``, ``pruned``                    plans and their cache; snapshots of the files of a plan
``usage``, ``changes``                   counts of a table's plans; files added and removed by versions
``scan``, ``evaluated_files``            the steps of a plan; decisions about single index files
``standalone``                           index files of requests without a table
``plan``, ``side_files``, ``buckets``    a plan's answer; file indexes of a version; buckets of keys
``deletions``                            deleted rows
``version``, ``request``                 one version of a table; requests and their limits
======================================== =============================================================
"""

from app.planning.changes import PlanChanges
from app.planning.deletions import DeletedPositions, DeletionsAnswer, load_vectors
from app.planning.evaluated_files import EvaluateAnswer, FileVerdict
from app.planning.pruned import PrunedSnapshot
from app.planning.scan.index_filter import in_file_schema
from app.planning.scan.partition_pruning import needed_manifests
from app.planning.scan.planner import decide
from app.planning.service import IndexService
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.usage import CALLS_OF_A_FILE, TableUsage
from app.planning.version.file_bounds import FileBounds
from app.planning.version.files import Files
from app.planning.version.version import Loaded, Version, missing_file_means_expired
from app.planning.watch import Watch

__all__ = [
    # Minimum number of calls that a reader makes for a data file.
    "CALLS_OF_A_FILE",
    # Deleted positions of one data file.
    "DeletedPositions",
    # Deleted rows by file.
    "DeletionsAnswer",
    # Decisions about index files, in the order of the request.
    "EvaluateAnswer",
    # Bounds of the files of one version.
    "FileBounds",
    # The file indexes of one version.
    "FileIndexes",
    # The decision about one index file.
    "FileVerdict",
    # The files of a version, with the manifests that describe them.
    "Files",
    # Answers requests about warehouses.
    "IndexService",
    # Manifests and index entries read for a version.
    "Loaded",
    # Files added and removed between two versions.
    "PlanChanges",
    # A snapshot that names only the files of a plan.
    "PrunedSnapshot",
    # Counts of the plans of one table.
    "TableUsage",
    # One version of a table during one request.
    "Version",
    # Loads new snapshots of tables ahead of requests.
    "Watch",
    # Decides the files of a version, step by step.
    "decide",
    # Rewrites a filter in terms of an older schema.
    "in_file_schema",
    # Loads the deletion vectors at given places, in order.
    "load_vectors",
    # Turns a missing file into `snapshot expired` if the version is gone.
    "missing_file_means_expired",
    # Chooses the manifests that a filter needs.
    "needed_manifests",
]
