"""The service made from settings: its warehouses, their readers, and the memory that each part may use."""

from __future__ import annotations

import re
from typing import Any, Final

from app.errors import PaimonIndexError, SettingsError
from app.memory_budget import MemoryBudget
from app.planning.service import IndexService
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.storage import DiskTier, RetryPolicy, Warehouse
from app.storage.retry import RetryBudget

_USER_INFO: Final = re.compile(r"://[^/@\s]*@")


def create_service(settings: Settings) -> IndexService:
    """The service over the warehouses of ``settings``.

    Raises:
        SettingsError: there are no warehouses, or one of their URLs cannot be used.
    """
    if not settings.warehouses:
        raise SettingsError(
            f"no warehouse is configured: give --warehouse name=url or {ENVIRONMENT_PREFIX}WAREHOUSES="
            """'{"name": "url"}'"""
        )
    budget = MemoryBudget.of(settings)
    disk = DiskTier(settings.disk_cache, settings.disk_cache_bytes) if settings.disk_cache else None
    count = len(settings.warehouses)
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
        time_zone=settings.time_zone,
        disk=disk,
        with_shapes=settings.filter_shapes,
    )


def _open(name: str, url: str, **how: Any) -> Warehouse:
    try:
        return Warehouse(name, url, **how)
    except (PaimonIndexError, ValueError, ImportError, OSError) as error:
        reason = _USER_INFO.sub("://...@", str(error))
        raise SettingsError(f"warehouse {name!r} cannot be opened: {reason}") from error
