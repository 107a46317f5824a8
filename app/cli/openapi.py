"""``openapi``: the contract of the HTTP service."""

from __future__ import annotations

import sys

import yaml

from app.main import create_app
from app.planning.request.limits import CacheBytes
from app.planning.service import IndexService
from app.settings import Settings


def openapi() -> None:
    """Print the OpenAPI document."""
    settings = Settings.load(warehouses={})
    service = IndexService({}, cache_bytes=CacheBytes(), limits=settings.limits)
    document = create_app(settings, service).openapi()
    yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True, width=110)
