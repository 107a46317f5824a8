"""Somebody who follows pages literally, in a clean clone and an empty home, with places of this machine."""

import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.first_steps.pages import ROOT, Block, blocks_of
from tests.first_steps.sessions import Kept, Pasted, Python, Shell
from tests.spark.environment import REQUIREMENTS

_OF_THE_MACHINE: Final = (
    "PIP_",
    "MAVEN_",
    "JAVA_HOME",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
)
"""Beginnings of variables that say how this machine reaches registries."""
_SPARK_DEFAULTS: Final = """
spark.ui.enabled false
spark.sql.shuffle.partitions 2
spark.driver.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
"""
"""Of the reader's Spark: ten rows need no 200 tasks, and no code that Java has thought about for long."""
_NO_CONNECTOR: Final = "PAIMON_SPARK_CONNECTOR names no jar of the engine's connector for Spark 4.0"


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class Step:
    """What became of one block.

    Attributes:
        seconds: how long it took.
        skipped: why this machine does not run it, if so.
        fault: what is wrong with it, if something is.
    """

    block: Block
    seconds: float = 0.0
    skipped: str | None = None
    fault: str | None = None


@dataclass(frozen=True, slots=True)
class Follower:
    """Follows pages in one clone.

    Attributes:
        home: an empty directory, which becomes the home and has the clone.
        connector: the jar of the engine's connector, or nothing.
    """

    home: Path
    connector: str
    port: int = field(default_factory=_free_port)
    _kept: list[Kept] = field(default_factory=list)

    @property
    def clone(self) -> Path:
        return self.home / "paimon-index"

    @property
    def warehouse(self) -> Path:
        """What stands where pages have a warehouse of the reader's."""
        return self.home / "warehouse"

    @property
    def log(self) -> Path:
        return self.home / "python.log"

    def prepare(self) -> None:
        """Clone HEAD, copy the samples, make an environment of ``pip`` and ``python`` with Spark."""
        of_git = ["git", "rev-parse", "--path-format=absolute"]
        repository = _output([*of_git, "--git-common-dir"])
        head = _output(["git", "rev-parse", "HEAD"])
        alone = {
            name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")
        }
        for command in (
            ["git", "clone", "--quiet", "--shared", "--no-checkout", repository, str(self.clone)],
            ["git", "-C", str(self.clone), "checkout", "--quiet", head],
            ["python3", "-m", "venv", str(self.home / "venv")],
        ):
            subprocess.run(command, check=True, env=alone)  # noqa: S603 - fixed words
        shutil.copytree(self.clone / "demo" / "warehouse", self.warehouse)
        # Spark 4.0, which the connector needs, and whose packages tests have downloaded.
        spark = [each for each in REQUIREMENTS if each.startswith(("pyspark=", "py4j="))]
        versions = (self.clone / "constraints.txt").read_text()
        (self.home / "versions.txt").write_text(versions + "\n".join(spark) + "\n")
        (self.home / "spark").mkdir()
        (self.home / "spark" / "spark-defaults.conf").write_text(_SPARK_DEFAULTS)
        self._fetch("python", "-m", "pip", "install", "--no-input", "pyspark[sql]")
        if self.connector:
            self._fetch("mvn", "-B", "-f", "jvm/pom.xml", "package", "-DskipTests")

    def _fetch(self, *command: str) -> None:
        seen = ["python", "tests/downloads.py", *command]
        subprocess.run(seen, check=True, cwd=self.clone, env=self.environment())  # noqa: S603 - fixed words

    def environment(self) -> dict[str, str]:
        """Nothing but an empty home, the caches of package managers, and settings of the service."""
        machine = {name: value for name, value in os.environ.items() if name.startswith(_OF_THE_MACHINE)}
        return machine | {
            "HOME": str(self.home),
            "PATH": f"{self.home / 'venv' / 'bin'}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "PIP_CACHE_DIR": os.environ.get("PIP_CACHE_DIR") or str(Path.home() / ".cache" / "pip"),
            "PIP_CONSTRAINT": str(self.home / "versions.txt"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_CONF_DIR": str(self.home / "spark"),
            # docs/iceberg.md and docs/operations.md name them.
            "PAIMON_INDEX_ICEBERG": "true",
            "PAIMON_INDEX_PORT": str(self.port),
        }

    def here(self, text: str) -> str:
        """Return a block with this machine's places."""
        catalog = next((self.clone / "jvm" / "target").glob("paimon-index-catalog-*.jar"), Path())
        for place, ours in {
            "/data/warehouse": str(self.warehouse),
            "s3://bucket/warehouse": self.warehouse.as_uri(),
            "localhost:8080": f"localhost:{self.port}",
            "127.0.0.1:8080": f"127.0.0.1:{self.port}",
            "paimon-index:8080": f"localhost:{self.port}",
            "paimon-spark-….jar": self.connector,
            "paimon-index-catalog-0.1.0.jar": str(catalog),
        }.items():
            text = text.replace(place, ours)
        return text

    def follow(self, page: str) -> Iterator[Step]:
        with ExitStack() as sessions:
            pasting = _Page(self, sessions)
            for block in blocks_of(page, self.clone):
                if fault := block.fault():
                    yield Step(block, fault=fault)
                elif block.not_run:
                    yield Step(block, skipped=f"as the page says: {block.not_run}")
                elif reason := pasting.missing(block):
                    yield Step(block, skipped=reason)
                else:
                    started = time.monotonic()
                    pasted = pasting.paste(block)
                    fault = pasted.error or block.difference(pasted.printed)
                    yield Step(block, time.monotonic() - started, fault=fault)

    def keep(self, block: Block) -> Pasted:
        """Start a command that serves, until the end."""
        log = self.home / f"kept-{len(self._kept)}.log"
        kept = Kept(self.here(block.text), self.clone, self.environment(), log)
        self._kept.append(kept)
        return kept.printed()

    def planned(self) -> bool:
        """Whether the service has planned what the engine's catalog asked."""
        with urllib.request.urlopen(f"http://localhost:{self.port}/metrics", timeout=60) as answer:
            metrics: str = answer.read().decode()
        return '/pruned-snapshot",status="200"' in metrics

    def end(self) -> None:
        for kept in self._kept:
            kept.end()


class _Page:
    """What the blocks of one page are pasted into, each started when the first block needs it."""

    def __init__(self, follower: Follower, sessions: ExitStack) -> None:
        self._follower = follower
        self._sessions = sessions
        self._shell: Shell | None = None
        self._python: Python | None = None
        self._session: Python | None = None
        self._missing: str | None = None

    def missing(self, block: Block) -> str | None:
        """Return what this machine lacks for a block.

        Of settings also for SQL and the jar's classes that follow.
        """
        if block.language == "properties":
            lacks = "paimon-spark-" in block.text and not self._follower.connector
            self._missing = _NO_CONNECTOR if lacks else None
        needs = block.language in ("properties", "sql") or "org.paimonindex" in block.text
        return self._missing if needs else None

    def paste(self, block: Block) -> Pasted:
        text = self._follower.here(block.text)
        if block.keeps_running:
            return self._follower.keep(block)
        if block.language in ("sh", "console"):
            if self._shell is None:
                shell = Shell(self._follower.clone, self._follower.environment())
                self._shell = self._sessions.enter_context(shell)
            return self._shell.paste(text)
        if block.language == "properties":
            self._session = self._started()
            settings = dict(line.split(maxsplit=1) for line in text.splitlines() if line.strip())
            # A slow machine is no reason for the engine to plan alone.
            patient = {
                f"{name.removesuffix('.metastore')}.paimon-index.timeout": "60 s"
                for name, value in settings.items()
                if value == "paimon-index"
            }
            return self._session.paste(block.language, "", settings | patient)
        if self._session is not None and (block.language == "sql" or "spark" in text):
            return self._session.paste(block.language, text, {})
        self._python = self._python or self._started()
        return self._python.paste(block.language, text, {})

    def _started(self) -> Python:
        follower = self._follower
        python = follower.home / "venv" / "bin" / "python"
        return self._sessions.enter_context(
            Python(python, follower.clone, follower.environment(), follower.log)
        )


def _output(command: list[str]) -> str:
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)  # noqa: S603 - fixed words
    return ran.stdout.strip()
