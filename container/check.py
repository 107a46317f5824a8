# ruff: noqa: INP001, T201 - a program of its own, in no package, that reports by printing
"""Holds what the container image is made of to its promises.

``make image-check`` needs no container engine. It installs the wheel as the Dockerfile does, and looks at
what is there then: the service and what it depends on must be there, all of it pinned, nothing else, and no
tests. Then it starts the service from a directory that it may not write to, as a user without privileges,
with settings from the environment alone. The service must plan a table of the sample warehouse, pass the
image's health check, write nowhere but to its cache directory, and end when it is told to. So must the
command ``demo``, with the samples of the wheel and no settings but the image's.

``make image`` builds the image, and checks the same of its root file system, mounted read-only, with the
command, user and environment of the image: ``--root DIR --config FILE``, see ``container/image.sh``.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import time
import urllib.request
import zipfile
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import TYPE_CHECKING

from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Mapping

ROOT = Path(__file__).resolve().parent.parent
WAREHOUSE = ROOT / "demo" / "warehouse"
SERVICE = canonicalize_name("paimon-index")
USER_ID = 10001
OLDEST_PYTHON = (3, 11)
# Tried in this order.
PYTHONS = (sys.executable, "python3", "/usr/local/bin/python3", "/usr/bin/python3")
START_SECONDS = 120
STOP_SECONDS = 60
# The program is started by another one: setpriv itself still has the superuser's rights when it starts one.
AS_OTHER = (
    *("setpriv", f"--reuid={USER_ID}", f"--regid={USER_ID}", "--clear-groups"),
    *("--no-new-privs", "--bounding-set=-all", "/usr/bin/env"),
)
QUESTION = {"filter": "fee = 58.43", "selection": "positions"}
ANSWER = {"files_total": 10, "files_kept": 3, "rows_selected": 8}
# Where the engine looks for catalogs.
FACTORIES = "META-INF/services/org.apache.paimon.factories.Factory"
# Never part of a service, even if something that is comes to depend on it.
UNWANTED = {"hypothesis", "moto", "mypy", "pip", "pypaimon", "pypaimon-rust", "pyspark", "pytest", "ruff"}


class CheckError(Exception):
    """A promise that is not kept."""


@dataclass(frozen=True, slots=True)
class Started:
    """How the service is started.

    Attributes:
        prefix: of every command: makes it run as another user, in another root directory.
        serve: the command that serves.
        probe: the health check.
        environment: variables, before those of the check.
        root: the file system that the service sees.
        work: a directory in it for the warehouse and the directory that it is started from.
        cache: the directory that it may write to.
    """

    prefix: tuple[str, ...]
    serve: tuple[str, ...]
    probe: tuple[str, ...]
    environment: Mapping[str, str]
    root: Path
    work: Path
    cache: Path

    def seen(self, path: Path) -> str:
        """``path`` as the service sees it."""
        return str(Path("/") / path.relative_to(self.root))


def main() -> int:
    """Check; give the exit status."""
    arguments = argparse.ArgumentParser(description="Check what the container image is made of.")
    arguments.add_argument("--extras", default="s3", help="storages that are installed, separated by commas")
    arguments.add_argument(
        "--python", help="interpreter of the service; unless given, one that others may run"
    )
    arguments.add_argument("--root", type=Path, help="check this root file system of an image")
    arguments.add_argument("--config", type=Path, help="what `podman image inspect` says of that image")
    options = arguments.parse_args()
    try:
        if options.root:
            check_image(options.root.resolve(), options.config, options.extras)
        else:
            with tempfile.TemporaryDirectory(prefix="paimon-index-") as work:
                check_installation(Path(work), options.python, options.extras)
    except CheckError as error:
        print(f"FAILED: {error}")
        return 1
    print("every check passed")
    return 0


def check_installation(work: Path, python: str | None, extras: str) -> None:
    """Install below ``work`` as the image does, and checks that."""
    work.chmod(0o755)
    as_other: tuple[str, ...] = ()
    if os.geteuid() != 0 or not shutil.which("setpriv"):
        print("only the superuser can start the service as another user: it runs as the user of this check")
    elif runnable := [each for each in ([python] if python else PYTHONS) if runs_for_others(each)]:
        as_other, python = AS_OTHER, os.path.realpath(shutil.which(runnable[0]) or runnable[0])
    else:
        print("others may not run this Python, so the service runs as the superuser")
    python = python or sys.executable
    target = work / "paimon-index"
    print(f"installing with {python}, extras {extras or 'none'}")
    subprocess.run(  # noqa: S603 - ours
        [ROOT / "container" / "install.sh", target, extras],
        env={**os.environ, "PYTHON": python, "TOOLS_PYTHON": sys.executable},
        check=True,
    )
    check_distributions(target, extras)
    if shutil.which("mvn"):
        catalog = work / "catalog"
        shutil.copytree(ROOT / "jvm", catalog, ignore=shutil.ignore_patterns("target"))
        subprocess.run(["mvn", "-q", "-B", "package", "-DskipTests"], cwd=catalog, check=True)  # noqa: S607
        check_catalog(catalog / "target")
    else:
        print("Maven is missing: the engine's catalog is not built")
    share, cache = target / "share", work / "cache"
    share.mkdir()
    shutil.copy(ROOT / "container" / "healthcheck.py", share)
    cache.mkdir(mode=0o700)
    if as_other:
        os.chown(cache, USER_ID, USER_ID)
    check_service(
        Started(
            prefix=as_other,
            serve=(str(target / "bin" / "paimon-index"), "serve"),
            probe=(str(target / "bin" / "python"), "-I", str(share / "healthcheck.py")),
            environment={
                "PATH": "/usr/bin:/bin",
                "HOME": str(cache),
                "TMPDIR": str(cache),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PAIMON_INDEX_HOST": "0.0.0.0",  # noqa: S104 - as in the image
                "PAIMON_INDEX_DISK_CACHE": str(cache / "files"),
            },
            root=Path("/"),
            work=work,
            cache=cache,
        )
    )
    print(f"installed size: {size_bytes(target) / 1e6:,.0f} MB")


def check_image(root: Path, config_file: Path, extras: str) -> None:
    """Check an image by its root file system, where ``/mnt`` can be written to, and its configuration."""
    (description,) = json.loads(config_file.read_text())
    config, probe = description["Config"], description["Healthcheck"]["Test"]
    target = root / "opt" / "paimon-index"
    check_distributions(target, extras)
    check_catalog(target / "jvm")
    places = os.pathsep.join(str(root / place) for place in ("bin", "usr/bin", "usr/local/bin"))
    present = [tool for tool in ("cc", "gcc", "java", "make", "pytest") if shutil.which(tool, path=places)]
    if present or (root / "src").exists():
        raise CheckError(f"the image has parts of its first stage: {present or '/src'}")
    if not re.fullmatch(r"[1-9][0-9]*:[0-9]+", config["User"]):
        raise CheckError(
            f"the image runs as {config['User']!r}, not as a user by number that is no superuser"
        )
    if config["Cmd"] != ["serve"] or probe[0] != "CMD":
        raise CheckError("the command and the health check of the image are not in exec form")
    labels = {name.removeprefix("org.opencontainers.image."): text for name, text in config["Labels"].items()}
    print(f"labels: {labels}")
    check_service(
        Started(
            prefix=("chroot", f"--userspec={config['User']}", "--groups=", str(root), "/usr/bin/env"),
            serve=(*config["Entrypoint"], *config["Cmd"]),
            probe=tuple(probe[1:]),
            environment=dict(line.split("=", 1) for line in config["Env"]),
            root=root,
            work=root / "mnt",
            cache=root / "var" / "cache" / "paimon-index",
        )
    )
    sizes = description["Size"] / 1e6, size_bytes(target) / 1e6
    print(f"size: {sizes[0]:,.0f} MB, of which {sizes[1]:,.0f} MB are the service")


def check_distributions(target: Path, extras: str) -> None:
    """Nothing but the service and what it needs, in pinned versions, and no tests."""
    site = next(target.glob("lib/python3.*/site-packages"))
    found = {canonicalize_name(each.metadata["Name"]): each for each in distributions(path=[str(site)])}
    needed = needed_of(found, extras, python_version=site.parent.name.removeprefix("python"))
    lines = (ROOT / "constraints.txt").read_text().split()
    pins = {canonicalize_name(name): version for name, version in (line.split("==") for line in lines)}
    unpinned = {name for name, each in found.items() if pins.get(name) != each.version} - {SERVICE}
    for names, fault in (
        (set(found) - needed, "is installed, and the service does not need it"),
        (UNWANTED & set(found), "is no part of a service"),
        (unpinned, "is not installed in the version of constraints.txt"),
    ):
        if names:
            raise CheckError(f"{', '.join(sorted(names))} {fault}")
    files = [str(file) for file in found[SERVICE].files or ()]
    for wanted in ("app/py.typed", "licenses/LICENSE", "licenses/NOTICE", "entry_points.txt"):
        if not any(file.endswith(wanted) for file in files):
            raise CheckError(f"the wheel has no {wanted}")
    foreign = [file for file in files if not file.startswith(("app/", "paimon_index-", "../../../bin/"))]
    tests = [str(path) for path in site.rglob("tests") if path.is_dir()]
    if foreign or tests:
        raise CheckError(f"this is no part of a service: {', '.join(foreign + tests)}")
    print(f"{len(found)} distributions, all of them needed and pinned")


def check_catalog(directory: Path) -> None:
    """One jar, which names a catalog that is in it, and has nothing that the engine brings."""
    try:
        (jar,) = directory.glob("paimon-index-catalog-*.jar")
        with zipfile.ZipFile(jar) as archive:
            names = [name for name in archive.namelist() if not name.endswith("/")]
            factory = archive.read(FACTORIES).decode().strip()
    except (ValueError, KeyError, zipfile.BadZipFile) as error:
        raise CheckError(f"{directory} has no jar of the engine's catalog: {error}") from error
    if factory.replace(".", "/") + ".class" not in names:
        raise CheckError(f"{jar.name} names the factory {factory}, and has no such class")
    foreign = [name for name in names if not name.startswith(("org/paimonindex/", "META-INF/"))]
    if foreign:
        raise CheckError(f"{jar.name} has what the engine brings: {', '.join(foreign[:10])}")
    print(f"{jar.name}: {len(names)} files, none of them the engine's")


def needed_of(found: Mapping[NormalizedName, Distribution], extras: str, *, python_version: str) -> set[str]:
    """Return the service and what it depends on, directly or not."""
    variables = {"python_version": python_version, "python_full_version": f"{python_version}.0"}
    seen: set[tuple[NormalizedName, str]] = set()
    left = [(SERVICE, extra) for extra in ("", *filter(None, extras.split(",")))]
    while left:
        name, extra = each = left.pop()
        if each in seen or name not in found:
            continue
        seen.add(each)
        for requirement in map(Requirement, found[name].requires or ()):
            if requirement.marker is None or requirement.marker.evaluate({**variables, "extra": extra}):
                wanted = canonicalize_name(requirement.name)
                left += [(wanted, also) for also in ("", *requirement.extras)]
    return {name for name, _ in seen}


def check_service(started: Started) -> None:
    """Start the service, and then the demonstration; ask and end each."""
    warehouse = started.work / "warehouse"
    shutil.copytree(WAREHOUSE, warehouse)
    (started.work / "unwritable").mkdir(mode=0o555)
    warehouses = json.dumps({"main": f"file://{started.seen(warehouse)}"})
    check_command(started, started.serve, {"PAIMON_INDEX_AUTH": "off", "PAIMON_INDEX_WAREHOUSES": warehouses})
    check_command(started, (started.serve[0], "demo"), {})


def check_command(started: Started, serve: tuple[str, ...], variables: Mapping[str, str]) -> None:
    """Start a command that serves the sample tables, asks it, and ends it."""
    unwritable = started.work / "unwritable"
    port = free_port()
    environment = {**started.environment, "PAIMON_INDEX_PORT": str(port), **variables}

    def start(command: tuple[str, ...]) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*started.prefix, *command], cwd=unwritable, env=environment)  # noqa: S603 - ours

    before = changes(started.work, started.cache)
    service = start(serve)
    try:
        wait_until_ready(service, f"http://127.0.0.1:{port}/health/ready")
        user_id = Path(f"/proc/{service.pid}").stat().st_uid
        summary = ask(f"http://127.0.0.1:{port}/v1/main/databases/demo/tables/sessions/plan")
        wrong = {name for name, value in ANSWER.items() if summary.get(name) != value}
        if wrong:
            raise CheckError(f"the plan of demo.sessions is wrong in {sorted(wrong)}: {summary}")
        check_explorer(f"http://127.0.0.1:{port}")
        if start(started.probe).wait() != 0:
            raise CheckError("the health check fails while the service answers")
        service.terminate()
        if service.wait(STOP_SECONDS) != 0:
            raise CheckError(f"the service ended with status {service.returncode} when it was told to stop")
    except subprocess.TimeoutExpired as error:
        raise CheckError(f"the service did not end within {STOP_SECONDS} s of SIGTERM") from error
    finally:
        service.kill()
        service.wait()
    if start(started.probe).wait() == 0:
        raise CheckError("the health check passes after the service has ended")
    if changes(started.work, started.cache) != before:
        raise CheckError("the service wrote outside of its cache directory")
    print(f"{serve[-1]}, user {user_id}: a plan, the health check, writes to the cache alone, an end with 0")


def check_explorer(url: str) -> None:
    """Return the page, and the files that it names."""
    with urllib.request.urlopen(f"{url}/ui", timeout=60) as response:  # noqa: S310 - http
        page = response.read().decode()
    names = re.findall(r'(?:src|href)="(ui/[^"]+)"', page)
    if "ui/main.js" not in names:
        raise CheckError("/ui is not the explorer")
    for name in names:
        with urllib.request.urlopen(f"{url}/{name}", timeout=60) as response:  # noqa: S310 - http
            response.read()


def wait_until_ready(service: subprocess.Popen[bytes], url: str) -> None:
    """Poll until the service answers."""
    give_up = time.monotonic() + START_SECONDS
    while time.monotonic() < give_up:
        if service.poll() is not None:
            raise CheckError(f"the service ended with status {service.returncode} instead of answering")
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - http
                return
        except OSError:
            time.sleep(0.1)
    raise CheckError(f"the service was not ready after {START_SECONDS} s")


def ask(url: str) -> dict[str, object]:
    """Return the summary of a plan."""
    with urllib.request.urlopen(url, json.dumps(QUESTION).encode(), timeout=60) as response:  # noqa: S310 - http
        summary: dict[str, object] = json.load(response)["summary"]
        return summary


def runs_for_others(python: str) -> bool:
    """Whether a user without privileges may run this Python, which one below /root is not."""
    path = os.path.realpath(shutil.which(python) or python)
    script = f"import sys, venv; sys.exit(sys.version_info < {OLDEST_PYTHON})"
    command = [*AS_OTHER, path, "-I", "-c", script]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0  # noqa: S603 - ours


def changes(work: Path, cache: Path) -> list[tuple[str, int]]:
    """Every file below ``work``, but those of the cache, with the time of its last change."""
    paths = (path for path in work.rglob("*") if cache not in (path, *path.parents))
    return sorted((str(path), path.lstat().st_mtime_ns) for path in paths)


def size_bytes(directory: Path) -> int:
    """Return what the files of ``directory`` take, links not followed."""
    sizes = (path.lstat() for path in directory.rglob("*"))
    return sum(each.st_size for each in sizes if stat.S_ISREG(each.st_mode))


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
