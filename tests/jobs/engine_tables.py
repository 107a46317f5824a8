"""Tables that our jobs and the engine's connector write to in turn."""

import shutil
from typing import Self

from tests.copied_tables import open_table
from tests.golden_cases import DATABASE, GoldenWarehouse
from tests.jobs.running_jobs import table
from tests.spark.sessions import Spark, SparkSession


class EngineTable:
    def __init__(self, connector: Spark, name: str) -> None:
        self.root = connector.warehouse
        self.directory = self.root / f"{DATABASE}.db" / name
        self.name = table(name)
        self.session: SparkSession = connector.session()
        self.opened = open_table(self.root, name)

    @classmethod
    def copy(cls, connector: Spark, golden: GoldenWarehouse, name: str) -> Self:
        shutil.rmtree(connector.warehouse / f"{DATABASE}.db" / name, ignore_errors=True)
        golden.copy(name, connector.warehouse)
        return cls(connector, name)

    def rows(self) -> int:
        (row,) = self.session.sql(f"SELECT count(*) AS n FROM {self.name}")  # noqa: S608 - fixed words
        return int(row["n"])

    def call(self, procedure: str) -> None:
        self.session.sql(f"CALL paimon.sys.{procedure}")

    def missing_files(self) -> list[str]:
        """Return data files and index files that the latest snapshot names, and that are not there."""
        resolved = self.opened.table.resolve()
        paths = self.opened.table.data_paths(resolved)
        named = [
            paths.paths.index_file(entry) for entry in self.opened.table.metadata.index_entries(resolved)
        ]
        for entry in self.opened.entries():
            path = paths.data_file(entry)
            named += [path, *(f"{path.rpartition('/')[0]}/{name}" for name in entry.file.extra_files)]
        return [path for path in named if not (self.root / path).is_file()]
