"""``doctor``: checks whether the service would work here, and advises on faults.

Each check is a function of the settings that yields findings; :data:`CHECKS` lists them in the order of
output. Checks change nothing except for a file in the disk cache and one in the shared cache, which they
remove.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_NOFILE, getrlimit
from tempfile import TemporaryFile
from typing import Annotated, Final

import typer

from app.access import TokenFile, is_loopback
from app.cli.options import AllowExternal, parse_warehouse
from app.cli.output import InWords, print_answer, print_line
from app.errors import FileMissingError, PaimonIndexError, SettingsError
from app.memory_budget import PROCESS_BYTES, MemoryBudget
from app.opening import open_shared_store, signing_key
from app.settings import Settings
from app.storage import RetryPolicy, Warehouse, Writing
from app.storage.disk import temporary_directory
from app.work import time_limit
from app.work.memory import is_in_memory

_STORAGE_SECONDS: Final = 20.0
_MAX_LISTED: Final = 20
_PROBE: Final = "doctor"
_EARLIEST: Final = 1_735_689_600
"""The first second of 2025 (UTC): a clock that shows less was never set."""

_COMFORTABLE_BYTES: Final = 256 << 20
_LEAST_OPEN_FILES: Final = 4_096
# Words in object stores' errors about wrong credentials or missing permissions.
_CREDENTIAL_ERRORS: Final = (
    *("InvalidAccessKeyId", "SignatureDoesNotMatch", "NoCredentials", "credentials", "AuthenticationFailed"),
    *("ClientAuthenticationError", "NoAuthenticationInformation", "AuthorizationFailure"),
)
_PERMISSION_ERRORS: Final = ("Forbidden", "AccessDenied", "AuthorizationPermissionMismatch")
_AZURE: Final = (
    "Azure needs AZURE_STORAGE_ACCOUNT_NAME (unless the URL names it) with AZURE_STORAGE_ACCOUNT_KEY, "
    "or with an identity of this machine; or AZURE_STORAGE_CONNECTION_STRING"
)
_HADOOP: Final = "Hadoop needs HADOOP_CONF_DIR, the directory of core-site.xml and hdfs-site.xml"
_REQUIRED: Final = {"az": _AZURE, "abfs": _AZURE, "abfss": _AZURE, "hdfs": _HADOOP, "viewfs": _HADOOP}
"""Required settings of a storage, by the scheme of its URL."""


class Outcome(StrEnum):
    """Result of a check."""

    OK = "ok"
    WARNING = "warning"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """Finding of a check."""

    check: str
    outcome: Outcome
    found: str
    advice: str = ""


def examine(load: Callable[[], Settings]) -> list[Finding]:
    """Run all checks."""
    try:
        settings = load()
    except SettingsError as error:
        advice = "correct these variables or flags; docs/settings.md describes them"
        return [Finding("settings", Outcome.FAILED, str(error), advice)]
    return [finding for check in CHECKS for finding in check(settings)]


def _check_settings(settings: Settings) -> Iterator[Finding]:
    if settings.warehouses:
        names = ", ".join(settings.warehouses)
        yield Finding("settings", Outcome.OK, f"{len(settings.warehouses)} warehouse(s): {names}")
    else:
        advice = """set PAIMON_INDEX_WAREHOUSES='{"name": "url"}' or give --warehouse name=url"""
        yield Finding("settings", Outcome.FAILED, "no warehouse is configured", advice)


def _check_tokens(settings: Settings) -> Iterator[Finding]:
    if settings.tokens_file is not None:
        try:
            tokens = TokenFile(settings.tokens_file, settings.warehouses)
        except SettingsError as error:
            advice = "correct the tokens file; paimon-index token new prints the lines that belong in it"
            yield Finding("tokens", Outcome.FAILED, str(error), advice)
            return
        yield Finding("tokens", Outcome.OK, f"{len(tokens)} token(s) in {settings.tokens_file}")
    elif settings.auth == "off":
        advice = "set PAIMON_INDEX_TOKENS_FILE unless something in front of the service checks its callers"
        yield Finding("tokens", Outcome.WARNING, "everybody who reaches the service is answered", advice)
    elif is_loopback(settings.host):
        yield Finding("tokens", Outcome.OK, "none; only callers of this machine are answered")
    else:
        advice = "set PAIMON_INDEX_TOKENS_FILE, PAIMON_INDEX_AUTH=off or PAIMON_INDEX_HOST=127.0.0.1"
        yield Finding("tokens", Outcome.FAILED, f"no tokens guard the address {settings.host}", advice)


def _check_memory(settings: Settings) -> Iterator[Finding]:
    try:
        budget = MemoryBudget.of(settings)
    except SettingsError as error:
        yield Finding("memory", Outcome.FAILED, str(error), "raise the limit, or lower the number of workers")
        return
    state = (
        f"{budget.limit >> 20} MiB for each of {settings.workers} worker(s) ({budget.source}), "
        f"{budget.caches.total >> 20} MiB of them for caches"
    )
    if budget.limit - PROCESS_BYTES < _COMFORTABLE_BYTES:
        advice = "give each worker 512 MiB or more: with small caches most files are read again and again"
        yield Finding("memory", Outcome.WARNING, state, advice)
    else:
        yield Finding("memory", Outcome.OK, state)


def _check_clock(_: Settings) -> Iterator[Finding]:
    now = time.time()
    shown = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    if now < _EARLIEST:
        advice = "set the clock (NTP): object stores refuse requests signed at a wrong time"
        yield Finding("clock", Outcome.FAILED, f"it shows {shown}, which is in the past", advice)
    else:
        yield Finding("clock", Outcome.OK, f"it shows {shown}")


def _check_system(_: Settings) -> Iterator[Finding]:
    # The service raises its own limit to the hard one.
    files = getrlimit(RLIMIT_NOFILE)[1]
    is_bounded = files != RLIM_INFINITY
    state = f"{files if is_bounded else 'unlimited'} open files, {os.cpu_count()} core(s)"
    if is_bounded and files < _LEAST_OPEN_FILES:
        advice = f"raise the limit of open files to {_LEAST_OPEN_FILES} (ulimit -Hn)"
        yield Finding("system", Outcome.WARNING, state, advice)
    else:
        yield Finding("system", Outcome.OK, state)


def _check_temporary_files(_: Settings) -> Iterator[Finding]:
    check = "temporary files"
    try:
        directory = temporary_directory(os.environ.get("TMPDIR"))
    except OSError as error:
        advice = "let TMPDIR name a directory on a disk, or plans of tables that exceed the caches fail"
        yield Finding(check, Outcome.WARNING, str(error), advice)
        return
    yield Finding(check, Outcome.OK, f"{directory} can be written to, and is on a disk")


def _check_disk_cache(settings: Settings) -> Iterator[Finding]:
    if settings.disk_cache is None:
        return
    directory = Path(settings.disk_cache)
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=directory) as file:
            file.write(b"x")
        status = os.statvfs(directory)
    except OSError as error:
        advice = f"let uid {os.getuid()} write to {directory}, or name another directory"
        yield Finding("disk cache", Outcome.FAILED, f"cannot be written to: {error}", advice)
        return
    free = status.f_bavail * status.f_frsize
    state = f"{directory} can be written to, {free >> 20} MiB are free"
    if is_in_memory(settings.disk_cache):
        advice = "name a directory on a disk: files in memory count against the limit of the process"
        yield Finding("disk cache", Outcome.WARNING, f"{directory} is in memory", advice)
        return
    if free < settings.disk_cache_bytes:
        advice = f"lower PAIMON_INDEX_DISK_CACHE_BYTES ({settings.disk_cache_bytes}) or give it a larger disk"
        yield Finding("disk cache", Outcome.WARNING, state, advice)
    else:
        yield Finding("disk cache", Outcome.OK, state)


def _check_warehouses(settings: Settings) -> Iterator[Finding]:
    for name, url in settings.warehouses.items():
        check = f"warehouse {name}"
        try:
            with time_limit(_STORAGE_SECONDS):
                warehouse = Warehouse(name, url, allow_external=settings.allow_external)
                yield _look_into(check, warehouse)
        except Exception as error:  # noqa: BLE001 - any fault is a finding
            yield Finding(check, Outcome.FAILED, _first_line(error), _advice_on(error, url))


def _look_into(check: str, warehouse: Warehouse) -> Finding:
    databases = [name for name in warehouse.list_names("") if name.endswith(".db")]
    if not databases:
        advice = "expected directories such as sales.db right below the URL: check the URL"
        if not warehouse.has_root():
            return Finding(check, Outcome.FAILED, "there is no such directory or bucket", advice)
        return Finding(check, Outcome.WARNING, "it can be listed, and has no database", advice)
    for database in databases[:_MAX_LISTED]:
        for table in warehouse.list_names(database)[:_MAX_LISTED]:
            directory = f"{database}/{table}/schema"
            for file in warehouse.list_names(directory)[:1]:
                return _read_byte(check, warehouse, f"{directory}/{file}", len(databases))
    advice = "nothing to do if it is new; else check that directories of tables may be listed"
    return Finding(check, Outcome.WARNING, f"{len(databases)} database(s), and no table in them", advice)


def _read_byte(check: str, warehouse: Warehouse, path: str, databases: int) -> Finding:
    (content,) = warehouse.read_ranges([(path, 0, 1)])
    if isinstance(content, PaimonIndexError):
        state = f"it can be listed, and {path} cannot be read: {_first_line(content)}"
        return Finding(
            check, Outcome.FAILED, state, _advice_on(content, warehouse.url, "read objects (s3:GetObject)")
        )
    return Finding(check, Outcome.OK, f"{databases} database(s); {path} can be read")


def _check_shared_cache(settings: Settings) -> Iterator[Finding]:
    check, url = "shared cache", settings.shared_cache or ""
    try:
        store = open_shared_store(settings, RetryPolicy(attempts=1))
        if store is None:
            return
        signed = "entries are signed" if signing_key(settings) else "entries are not signed"
    except SettingsError as error:
        yield Finding(check, Outcome.FAILED, str(error), "docs/settings.md describes its variables")
        return
    writing = Writing(store)
    try:
        with time_limit(_STORAGE_SECONDS):
            writing.create(_PROBE, secrets.token_bytes(16))
            # Entries are written once: a second create of one name has to fail.
            is_replaced = writing.create(_PROBE, secrets.token_bytes(16))
            store.read(_PROBE)
            # Only pruning needs the permission to delete.
            with suppress(PaimonIndexError):
                writing.delete(_PROBE)
    except Exception as error:  # noqa: BLE001 - as for warehouses
        permission = "get and create objects (s3:GetObject, s3:PutObject)"
        reason = f"{store.public_url}: {_first_line(error)}"
        yield Finding(check, Outcome.FAILED, reason, _advice_on(error, url, permission))
        return
    if is_replaced:
        advice = "use a store that creates objects only if they are missing (for S3: one with If-None-Match)"
        yield Finding(
            check, Outcome.FAILED, "the store overwrites objects instead of refusing to create them", advice
        )
    else:
        yield Finding(check, Outcome.OK, f"{store.public_url} can be read and written to, {signed}")


def _advice_on(error: BaseException, url: str, permission: str = "list the directory (s3:ListBucket)") -> str:
    """Advise on an error of storage. ``permission`` is the one that the call needed."""
    causes = _causes(error)
    text = " ".join(str(cause) for cause in causes)
    kinds = {type(cause) for cause in causes}
    if any(issubclass(kind, ImportError) for kind in kinds):
        return (
            "install the driver of this storage: the extra [s3], [gcs], [azure], [oss] or [hdfs] of this "
            "package, or the package that is named"
        )
    if PermissionError in kinds or any(word in text for word in _PERMISSION_ERRORS):
        return f"the credentials are valid, but may not {permission}: add that permission"
    if "RequestTimeTooSkewed" in text:
        return "set the clock (NTP): the store refuses requests signed at a wrong time"
    if kinds & {FileMissingError, FileNotFoundError} or "NoSuchBucket" in text:
        return "check the URL: there is no such bucket or directory"
    advice = "check the URL, the endpoint and the network to it"
    if any(word in text for word in _CREDENTIAL_ERRORS):
        advice = "check the credentials: the variables, profile or role that the storage's tools use as well"
    needed = _REQUIRED.get(url.partition(":")[0].lower())
    return f"{advice}. {needed}" if needed else advice


def _causes(error: BaseException | None) -> list[BaseException]:
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    return causes


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0] or type(error).__name__


CHECKS: Final[tuple[Callable[[Settings], Iterator[Finding]], ...]] = (
    _check_settings,
    _check_tokens,
    _check_memory,
    _check_clock,
    _check_system,
    _check_temporary_files,
    _check_disk_cache,
    _check_shared_cache,
    _check_warehouses,
)
"""All checks; add new ones here."""

_SIGNS: Final = {Outcome.OK: "ok", Outcome.WARNING: "WARNING", Outcome.FAILED: "FAILED"}


def doctor(
    warehouse: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="Warehouse to check; repeatable."),
    ] = None,
    allow_external: AllowExternal = None,
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check settings, memory, clock, disk cache and warehouses, and say what to do. Status 1 if one fails."""
    findings = examine(
        lambda: Settings.load(
            warehouses=dict(parse_warehouse(text) for text in warehouse) if warehouse else None,
            allow_external=tuple(allow_external) if allow_external else None,
        )
    )
    failed = [finding for finding in findings if finding.outcome is Outcome.FAILED]
    answer = {"healthy": not failed, "checks": [asdict(finding) for finding in findings]}
    print_answer(InWords(answer, lambda _: _print(findings)), as_json=as_json)
    if failed:
        raise typer.Exit(1)


def _print(findings: Sequence[Finding]) -> None:
    width = max(len(finding.check) for finding in findings)
    for finding in findings:
        first, *further_lines = finding.found.splitlines() or [""]
        print_line(f"{_SIGNS[finding.outcome]:8} {finding.check:{width}}  {first}")
        for line in further_lines:
            print_line(f"{'':8} {'':{width}}  {line}")
        if finding.advice:
            print_line(f"{'':8} {'':{width}}  -> {finding.advice}")
