# ruff: noqa: INP001, T201 - a program of its own, in no package, that reports by printing
"""Makes what a release has, of one commit: ``make release`` writes it to ``dist``.

::

    paimon_index-VERSION-py3-none-any.whl, .tar.gz          the service: wheel and source distribution
    paimon_index_client-VERSION-py3-none-any.whl, .tar.gz   the client
    paimon-index-catalog-VERSION.jar                        the engine's catalog
    paimon-index-VERSION.tgz                                the Helm chart
    paimon-index-docs-VERSION.tar.gz                        the documentation: a site, and its pages
    paimon-index-sample-warehouse-VERSION.tar.gz            the tables that its examples ask
    openapi.yaml                                            the API
    constraints.txt                                         versions that all of this was tested with
    paimon-index-VERSION.cdx.json                           what service and client depend on (CycloneDX)
    SHA256SUMS                                              of all of these

A release is made of a commit, not of a working tree, and every time in it is that of the commit
(``SOURCE_DATE_EPOCH``): two builds of one commit by the same tools are equal byte for byte. ``--check``
holds it to that. It builds twice, in other directories, time zones and languages, and compares; then it
looks at the dependencies that the build has installed: their licences, and the vulnerabilities that are
known of them.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# Every storage and the traces; jobs bring pyspark, which whoever runs them has.
EXTRAS = "azure,gcs,hdfs,oss,otel,s3"
OTHER_PLACE = {"TZ": "Asia/Kathmandu", "LC_ALL": "C", "PYTHONHASHSEED": "1"}


def main() -> None:
    """Build, and check where that is asked for; raises where something fails."""
    arguments = argparse.ArgumentParser(description="Make what a release has.")
    arguments.add_argument("--commit", default="HEAD", help="what it is made of")
    arguments.add_argument("--home", help="URL of the project's repository, for the chart's home and sources")
    arguments.add_argument("--check", action="store_true", help="build twice, and check the dependencies")
    options = arguments.parse_args()
    if git("status", "--porcelain"):
        print(f"The working tree has changes; what is built is {options.commit} without them.")
    # Whoever commits meanwhile changes nothing.
    commit = git("rev-parse", "--verify", f"{options.commit}^{{commit}}")
    with tempfile.TemporaryDirectory(prefix="paimon-index-release-") as work:
        first = Build(Path(work) / "first", commit, options.home)
        first.make()
        if options.check:
            second = Build(Path(work) / "another" / "place", commit, options.home)
            second.make(OTHER_PLACE)
            compare(first.dist, second.dist)
            check_licences(first.python)
            check_vulnerabilities(first.site_packages)
        shutil.rmtree(ROOT / "dist", ignore_errors=True)
        shutil.copytree(first.dist, ROOT / "dist")
    print((ROOT / "dist" / "SHA256SUMS").read_text(), end="")


class Build:
    """One build of a commit.

    ``work``: an empty directory for it, which is made.
    ``commit``: what is built.
    ``home``: URL of the project's repository, if it has one.

    Attributes:
        dist: what was built.
        python: of an environment with the service, the client and what they depend on.
        site_packages: of that environment.
    """

    def __init__(self, work: Path, commit: str, home: str | None) -> None:
        self._tree = work / "tree"
        self._home = home
        self._epoch = int(git("log", "-1", "--format=%ct", commit))
        self.dist = work / "dist"
        self.dist.mkdir(parents=True)
        self.python = work / "environment" / "bin" / "python"
        content = subprocess.run(  # noqa: S603 - ours
            ["git", "archive", commit],  # noqa: S607
            cwd=ROOT,
            check=True,
            capture_output=True,
        ).stdout
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            archive.extractall(self._tree, filter="data")
        project = tomllib.loads((self._tree / "pyproject.toml").read_text())["project"]
        self._version: str = project["version"]
        self._environment: dict[str, str] = {}

    @property
    def site_packages(self) -> Path:
        """Where the environment has its packages."""
        return next(self.python.parent.parent.glob("lib/python3.*/site-packages"))

    def make(self, variables: Mapping[str, str] | None = None) -> None:
        """Build all, with these environment variables besides the machine's."""
        self._environment = {
            **os.environ,
            **(variables or {}),
            "SOURCE_DATE_EPOCH": str(self._epoch),
            "PIP_CONSTRAINT": str(self._tree / "constraints.txt"),
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_ROOT_USER_ACTION": "ignore",
        }
        for project in (self._tree, self._tree / "client"):
            self._run(sys.executable, "-m", "hatchling", "build", "-d", str(self.dist), cwd=project)
        self._make_jar()
        programs = str(Path(sys.executable).parent)
        self._run("make", "--silent", "-C", str(self._tree), "site", f"BIN={programs}")
        chart = self.dist / f"paimon-index-{self._version}.tgz"
        write_archive(chart, "paimon-index", self._chart(), self._epoch)
        self._archive(
            f"paimon-index-docs-{self._version}.tar.gz",
            "paimon-index-docs",
            # The site, and the pages that it was built from; beside them lies the cache of what built it.
            [file for name in ("html", "source") for file in (self._tree / "build/docs" / name).rglob("*")],
            below=self._tree / "build" / "docs",
        )
        self._archive(
            f"paimon-index-sample-warehouse-{self._version}.tar.gz",
            # Where the examples look for it.
            "demo",
            (self._tree / "demo" / "warehouse").rglob("*"),
            below=self._tree / "demo",
        )
        for name in ("openapi.yaml", "constraints.txt"):
            shutil.copy(self._tree / name, self.dist)
        self._make_bill_of_materials()
        sums = [
            f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n"
            for file in sorted(self.dist.iterdir())
        ]
        (self.dist / "SHA256SUMS").write_text("".join(sums))

    def _make_jar(self) -> None:
        commit_time = datetime.fromtimestamp(self._epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        module = self._tree / "jvm"
        self._run(
            *("mvn", "-q", "-B", "-f", str(module / "pom.xml"), "package", "-DskipTests"),
            f"-Dproject.build.outputTimestamp={commit_time}",
        )
        shutil.copy(module / "target" / f"paimon-index-catalog-{self._version}.jar", self.dist)

    def _chart(self) -> dict[str, bytes]:
        """Files of the chart package by name; `helm package` would do the same, and need Go to be built."""
        chart = self._tree / "helm" / "paimon-index"
        files = {
            str(file.relative_to(chart)): file.read_bytes()
            for file in chart.rglob("*")
            if file.is_file() and file.relative_to(chart).parts[0] not in ("ci", ".helmignore")
        }
        files |= {name: (self._tree / name).read_bytes() for name in ("LICENSE", "NOTICE")}
        if self._home:
            files["Chart.yaml"] += f"home: {self._home}\nsources:\n  - {self._home}\n".encode()
        return files

    def _make_bill_of_materials(self) -> None:
        """Install the wheels with every storage, and list what is there then."""
        wheels = {file.name.partition("-")[0]: file for file in self.dist.glob("*.whl")}
        self._run(sys.executable, "-m", "venv", "--without-pip", str(self.python.parent.parent))
        self._run(
            *(sys.executable, "-m", "pip", "--python", str(self.python), "install", "--quiet"),
            *(f"{wheels['paimon_index']}[{EXTRAS}]", str(wheels["paimon_index_client"])),
        )
        # Where a wheel lay on this machine is no part of what it is.
        for record in self.site_packages.glob("paimon_index*.dist-info/direct_url.json"):
            record.unlink()
        self._run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", "--output-reproducible"),
            *("--pyproject", str(self._tree / "pyproject.toml")),
            *("--output-file", str(self.dist / f"paimon-index-{self._version}.cdx.json"), str(self.python)),
        )

    def _archive(self, name: str, prefix: str, files: Iterable[Path], below: Path) -> None:
        """Return an archive of files that unpacks to a directory ``prefix`` by paths below another."""
        contents = {str(file.relative_to(below)): file.read_bytes() for file in files if file.is_file()}
        write_archive(self.dist / name, prefix, contents, self._epoch)

    def _run(self, *command: str, cwd: Path | None = None) -> None:
        print("$", *command[:8], flush=True)
        # A jar has the modes of the files that it was made of.
        subprocess.run(command, check=True, cwd=cwd, env=self._environment, umask=0o022)  # noqa: S603 - ours


def write_archive(place: Path, prefix: str, contents: Mapping[str, bytes], epoch: int) -> None:
    """Write a compressed archive that depends on nothing but these names, contents and this time."""
    with (
        place.open("wb") as written,
        gzip.GzipFile(filename="", mode="wb", fileobj=written, mtime=epoch) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path, content in sorted(contents.items()):
            member = tarfile.TarInfo(f"{prefix}/{path}")
            member.size, member.mtime, member.mode = len(content), epoch, 0o644
            archive.addfile(member, io.BytesIO(content))


def git(*arguments: str) -> str:
    """Return what git says."""
    done = subprocess.run(["git", *arguments], cwd=ROOT, check=False, capture_output=True, text=True)  # noqa: S603, S607 - ours
    if done.returncode:
        raise SystemExit(f"FAILED: a release is made of a commit, and git tells none here: {done.stderr}")
    return done.stdout.strip()


def compare(first: Path, second: Path) -> None:
    """Raise unless both directories have the same files."""
    one, other = ({file.name: file.read_bytes() for file in each.iterdir()} for each in (first, second))
    different = sorted(name for name in one.keys() | other.keys() if one.get(name) != other.get(name))
    if different:
        raise SystemExit(f"FAILED: two builds of one commit differ in {', '.join(different)}")
    print(f"{len(one)} files, the same in both builds")


def check_licences(python: Path) -> None:
    """Raise unless every licence is one of those that pyproject.toml allows or names as an exception."""
    command = [sys.executable, "-m", "piplicenses", "--python", str(python), "--order", "license"]
    if subprocess.run(command, cwd=ROOT, check=False).returncode:  # noqa: S603 - ours
        raise SystemExit(
            "FAILED: a dependency has a licence that [tool.pip-licenses] of pyproject.toml does not allow"
        )


def check_vulnerabilities(site_packages: Path) -> None:
    """Raise where one is known. Say so where the service that knows them is not reached."""
    command = [sys.executable, "-m", "pip_audit", "--path", str(site_packages), "--format", "json"]
    # It trusts the certificates of requests, which are not those that pip was told to trust.
    certificates = os.environ.get("PIP_CERT") or os.environ.get("SSL_CERT_FILE")
    environment = ({"REQUESTS_CA_BUNDLE": certificates} if certificates else {}) | os.environ
    done = subprocess.run(  # noqa: S603 - ours
        command, capture_output=True, text=True, check=False, env=environment
    )
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        # Without a network, through a proxy that answers itself, by a certificate of one: in any words.
        said = done.stderr.strip().splitlines()
        print(f"NOT CHECKED: pip-audit gave no answer: {said[-1] if said else 'it said nothing':.300}")
        return
    audited = [
        each for each in packages if "skip_reason" not in each and not each["name"].startswith("paimon")
    ]
    if not audited:
        print("NOT CHECKED: the service that knows vulnerabilities knows none of the packages")
        return
    found = [
        f"{each['name']} {each['version']}: {vulnerability['id']}, fixed in {vulnerability['fix_versions']}"
        for each in audited
        for vulnerability in each["vulns"]
    ]
    if found:
        raise SystemExit("FAILED: known vulnerabilities\n" + "\n".join(found))
    print(f"no vulnerability is known of {len(audited)} of {len(packages)} packages")


if __name__ == "__main__":
    main()
