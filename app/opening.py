"""The service from settings: its warehouses, caches and memory."""

from __future__ import annotations

import os
import re
from typing import Any, Final

from app.errors import PaimonIndexError, SettingsError
from app.memory_budget import PROCESS_BYTES, MemoryBudget
from app.planning import IndexService
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.storage import RetryBudget, RetryPolicy, SharedTier, Warehouse
from app.storage.disk import DiskTier
from app.storage.locations import normal_uri
from app.storage.stores import local_files
from app.work import LEDGER

_LEAST_KEY_BYTES: Final = 16
_MOST_KEY_BYTES: Final = 4_096
# Reads give up the shared cache after this time, since the warehouse has the same content.
_SILENCE_SECONDS: Final = 1.0

_USER_INFO: Final = re.compile(r"://[^/@\s]*@")


def create_service(settings: Settings) -> IndexService:
    """Create the service, and apply the memory limit. Raises SettingsError if a warehouse is unusable."""
    if not settings.warehouses:
        raise SettingsError(
            f"no warehouse is configured: give --warehouse name=url or {ENVIRONMENT_PREFIX}WAREHOUSES="
            """'{"name": "url"}'"""
        )
    budget = MemoryBudget.of(settings)
    LEDGER.keep_within(budget.limit, PROCESS_BYTES)
    disk = DiskTier(settings.disk_cache, settings.disk_cache_bytes) if settings.disk_cache else None
    count = len(settings.warehouses)
    # Not retried: the warehouse has the content, and reads it in the time of a retry.
    store = open_shared_store(settings, RetryPolicy(attempts=1))
    shared = None if store is None else SharedTier(store, signing_key(settings))
    warehouses = {
        name: _open(
            name,
            url,
            public_url=settings.public_urls.get(name),
            allow_external=settings.allow_external,
            engine_writes_only=name in settings.engine_writes_only,
            retry=RetryPolicy(budget=retries),
            disk=disk,
        )
        for (name, url), retries in zip(settings.warehouses.items(), RetryBudget.of_each(count), strict=True)
    }
    return IndexService(
        warehouses,
        cache_bytes=budget.caches,
        limits=settings.limits,
        disk=disk,
        shared=shared,
        with_shapes=settings.filter_shapes,
    )


def open_shared_store(settings: Settings, retry: RetryPolicy) -> Warehouse | None:
    """Open the shared cache's prefix, if any. Raises SettingsError if it is unusable, or in a warehouse."""
    if settings.shared_cache is None:
        return None
    try:
        store = Warehouse(
            "shared cache",
            settings.shared_cache,
            retry=retry,
            stall_seconds=_SILENCE_SECONDS,
        )
        roots = map(normal_uri, [*settings.warehouses.values(), *settings.public_urls.values()])
        overlapping = [
            root for root in roots if _overlap(store.url, root) or _overlap(*map(_real, (store.url, root)))
        ]
    except (PaimonIndexError, ValueError, ImportError, OSError) as error:
        reason = _USER_INFO.sub("://...@", str(error))
        raise SettingsError(f"the shared cache cannot be opened: {reason}") from error
    if overlapping:
        raise SettingsError(
            f"{ENVIRONMENT_PREFIX}SHARED_CACHE: {store.public_url} and a warehouse lie inside of one "
            f"another: give it a prefix of its own"
        )
    return store


def _overlap(one: str, other: str) -> bool:
    one, other = (f"{url.rstrip('/')}/" for url in (one, other))
    return one.startswith(other) or other.startswith(one)


def _real(url: str) -> str:
    return f"file://{os.path.realpath(url.removeprefix('file://'))}" if url.startswith("file://") else url


def signing_key(settings: Settings) -> bytes:
    """Return the signing key, which is empty for a private cache.

    Raises SettingsError if it is unreadable or too short.
    """
    if settings.shared_cache_private:
        return b""
    variable = f"{ENVIRONMENT_PREFIX}SHARED_CACHE_KEY"
    if settings.shared_cache_key is not None:
        key = settings.shared_cache_key.get_secret_value().encode()
    else:
        variable += "_FILE"
        try:
            key = local_files.content(settings.shared_cache_key_file or "", _MOST_KEY_BYTES + 1).strip()
        except OSError as error:
            raise SettingsError(f"{variable}: cannot be read: {error.strerror}") from error
    if not _LEAST_KEY_BYTES <= len(key) <= _MOST_KEY_BYTES:
        raise SettingsError(
            f"{variable}: a key has {_LEAST_KEY_BYTES} to {_MOST_KEY_BYTES:,} characters, as "
            f"`openssl rand -hex 32` makes"
        )
    return key


def _open(name: str, url: str, **how: Any) -> Warehouse:
    try:
        return Warehouse(name, url, **how)
    except (PaimonIndexError, ValueError, ImportError, OSError) as error:
        reason = _USER_INFO.sub("://...@", str(error))
        raise SettingsError(f"warehouse {name!r} cannot be opened: {reason}") from error
