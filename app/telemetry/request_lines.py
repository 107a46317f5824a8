"""The line that a request leaves in the log."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers

from app.telemetry.account import NO_ANSWER, PHASE_NAMES, Account
from app.telemetry.logs import event_record

LOGGER: Final = "paimon_index.requests"

_log = logging.getLogger(LOGGER)

_QUIET: Final = ("/health/", "/metrics")
"""Probes and scrapes come every few seconds and tell nothing."""

_BUG: Final = 500
_TRACE_PARENT: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
_NO_TRACE: Final = "0" * 32


def write_line(account: Account, seconds: float) -> None:
    """Writes the line of a request that is over, if the log's level lets it."""
    level = _level(account)
    if _log.isEnabledFor(level):
        _log.handle(event_record(LOGGER, level, "request", _members(account, seconds)))


def _level(account: Account) -> int:
    if account.route.startswith(_QUIET):
        return logging.DEBUG
    status = account.status or 0
    if status == _BUG:
        return logging.ERROR
    if status > _BUG or (account.status is not None and not account.is_complete):
        return logging.WARNING
    return logging.INFO


def _members(account: Account, seconds: float) -> Mapping[str, Any]:
    scope = account.scope
    members: dict[str, Any] = {
        "request_id": scope["state"].get("request_id"),
        **_trace(account),
        "method": scope["method"],
        "route": account.route,
        "status": int(NO_ANSWER) if account.status is None else account.status,
        "duration_ms": round(seconds * 1000, 3),
    }
    place = scope.get("path_params") or {}
    # A path below a warehouse names its table; what it is asked stays unsaid.
    members |= {name: place[name] for name in ("warehouse", "database", "table") if name in place}
    if account.token_name is not None:
        members["token"] = account.token_name
    if account.phases:
        # Copied first, since a thread that nobody waits for any more may still add to them.
        phases = account.phases.copy()
        members["phases_ms"] = {PHASE_NAMES[each]: round(spent * 1000, 3) for each, spent in phases.items()}
    if account.plan is not None:
        members["files_considered"] = account.plan.files
        members["files_kept"] = account.plan.files_kept
        members["rows_selected"] = account.plan.rows
        if account.plan.warnings:
            members["warnings"] = account.plan.warnings
    if account.storage_calls:
        members["storage_calls"] = account.storage_calls
        members["storage_bytes"] = account.storage_bytes
        members["storage_ms"] = round(account.storage_seconds * 1000, 3)
    if account.cache_hits or account.cache_misses:
        members["cache_hits"] = account.cache_hits
        members["cache_misses"] = account.cache_misses
    members["answer_bytes"] = account.answer_bytes
    if account.status is not None and not account.is_complete:
        members["broken_off"] = True
    return members


def _trace(account: Account) -> Mapping[str, str]:
    """The trace that the request belongs to, by our own span or the caller's header (W3C Trace Context)."""
    trace = account.trace
    if trace is None:
        found = _TRACE_PARENT.fullmatch(Headers(scope=account.scope).get("traceparent", ""))
        return {"trace_id": found[1]} if found and found[1] != _NO_TRACE else {}
    return {"trace_id": trace[0], "span_id": trace[1]}
