"""``serve``: the HTTP service."""

from __future__ import annotations

import json
import os
from copy import deepcopy
from typing import TYPE_CHECKING, Annotated, Any

import typer
import uvicorn
from uvicorn.config import LOGGING_CONFIG

from app.cli.options import AllowExternal, parse_warehouse
from app.connections import PunctualProtocol
from app.main import create_app, create_service
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.stopping import run_server

if TYPE_CHECKING:
    from collections.abc import Mapping

    from fastapi import FastAPI

_WORKER_SECONDS = 60


def serve(
    warehouse: Annotated[
        list[str] | None, typer.Option(metavar="NAME=URL", help="A warehouse to serve; repeatable.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes.")] = None,
    allow_external: AllowExternal = None,
) -> None:
    """Serve HTTP. Flags win over PAIMON_INDEX_* environment variables."""
    settings = Settings.load(
        warehouses=dict(parse_warehouse(text) for text in warehouse) if warehouse else None,
        host=host,
        port=port,
        workers=workers,
        allow_external=tuple(allow_external) if allow_external else None,
    )
    # Made before anything listens, so that settings which cannot be used end the command with their message.
    service = create_service(settings)
    application: FastAPI | str = create_app(settings, service)
    if settings.workers > 1:
        # Each process makes its own application, from an environment that repeats the flags.
        os.environ.update(_environment(settings))
        application = "app.main:create_app"
    config = uvicorn.Config(
        application,
        factory=isinstance(application, str),
        host=settings.host,
        port=settings.port,
        workers=settings.workers,
        http=PunctualProtocol,
        log_config=_log_config(),
        timeout_graceful_shutdown=settings.grace_seconds,
        # A worker that is silent for long is replaced; one that starts on a busy machine is not.
        timeout_worker_healthcheck=_WORKER_SECONDS,
    )
    run_server(config)


def _log_config() -> dict[str, Any]:
    """uvicorn's, with the service's own lines in the same form."""
    config = deepcopy(LOGGING_CONFIG)
    config["loggers"]["paimon_index"] = {"handlers": ["default"], "level": "INFO", "propagate": False}
    return config


def _environment(settings: Settings) -> Mapping[str, str]:
    given = settings.model_dump(mode="json", include=settings.model_fields_set)
    return {
        ENVIRONMENT_PREFIX + name.upper(): value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
    }
