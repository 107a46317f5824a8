"""The endpoints, one module for each subject. Iceberg's are imported only if they are served."""

from typing import Final

from fastapi import APIRouter

from app.api.routes import (
    advice,
    aggregates,
    changes,
    discovery,
    index_files,
    operations,
    planning,
)
from app.api.routes.advice import SharedUsage
from app.api.routes.misdirected import unknown_path, wrong_method
from app.api.routes.operations import Caches, Warmth

__all__ = ["ROUTERS", "Caches", "SharedUsage", "Warmth", "unknown_path", "wrong_method"]

ROUTERS: Final[tuple[APIRouter, ...]] = (
    planning.router,
    aggregates.router,
    changes.router,
    planning.deletions_router,
    planning.buckets_router,
    # Before routes that begin with the name of a warehouse, which could be any word.
    operations.router,
    discovery.router,
    index_files.router,
    advice.router,
)
