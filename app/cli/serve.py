"""``serve``, ``demo`` and ``openapi``: the HTTP service, a demo with sample tables, and the contract."""

from __future__ import annotations

import errno
import json
import os
import socket
import ssl
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer
import uvicorn
import yaml

from app.access import is_loopback
from app.cli.options import AllowExternal, parse_warehouse
from app.cli.output import print_line
from app.errors import PaimonIndexError, SettingsError
from app.main import create_app
from app.opening import create_service
from app.planning import IndexService
from app.planning.request.limits import CacheBytes
from app.server import VARIABLE as WORKERS_DIRECTORY
from app.server import (
    PunctualProtocol,
    accepted_at_once,
    raise_descriptor_limit,
    run_server,
    shared_directory,
)
from app.settings import ENVIRONMENT_PREFIX, Settings
from app.suggestions import listed
from app.telemetry import logging_config
from app.work import time_limit

if TYPE_CHECKING:
    from fastapi import FastAPI


# uvicorn replaces a worker that is silent this long; one that starts on a busy machine needs the time.
_WORKER_SECONDS = 60

# A clone has a link to demo/warehouse here, and a wheel the files themselves.
_SAMPLES: Final = Path(__file__).with_name("samples")

_FIRST_QUESTIONS: Final = (
    ("sessions/plan", '{"filter": "fee = 58.43", "selection": "positions"}'),
    ("sessions/aggregate", '{"filter": "fee = 58.43", "aggregates": [{"function": "count"}]}'),
    ("users/buckets/lookup", '{"partition": {"dte": "2024-01-01"}, "keys": [{"uid": 999999967}]}'),
)
"""Example requests of the greeting: a table's endpoint and a body."""

_LISTING_SECONDS: Final = 10.0
"""Time limit for listing a warehouse's databases."""


def serve(  # noqa: PLR0913 - a parameter for each flag
    *,
    warehouse: Annotated[
        list[str] | None, typer.Option(metavar="NAME=URL", help="Warehouse to serve; repeatable.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 chooses a free port.")] = None,
    workers: Annotated[int | None, typer.Option(help="Number of worker processes.")] = None,
    allow_external: AllowExternal = None,
    tokens_file: Annotated[
        str | None, typer.Option(metavar="FILE", help="File with access tokens; see paimon-index token new.")
    ] = None,
    no_auth: Annotated[
        bool, typer.Option("--no-auth", help="Answer requests without a token, on any address.")
    ] = False,
    tls_certificate: Annotated[
        str | None, typer.Option(metavar="FILE", help="PEM file of the certificate chain: serve HTTPS.")
    ] = None,
    tls_key: Annotated[
        str | None,
        typer.Option(
            metavar="FILE", help="PEM file of the private key, if the certificate file does not contain it."
        ),
    ] = None,
) -> None:
    """Serve HTTP. Flags win over PAIMON_INDEX_* environment variables."""
    settings = Settings.load(
        warehouses=dict(parse_warehouse(text) for text in warehouse) if warehouse else None,
        host=host,
        port=port,
        workers=workers,
        allow_external=tuple(allow_external) if allow_external else None,
        auth="off" if no_auth else None,
        tokens_file=tokens_file,
        tls_certificate=tls_certificate,
        tls_key=tls_key,
    )
    run_service(settings, show_banner)


def run_service(settings: Settings, greet: Callable[[Settings, IndexService], None]) -> None:
    """Call ``greet`` and serve until the process has to stop. Raises SettingsError if it cannot."""
    _check_address(settings)
    _check_certificate(settings)
    _check_port(settings)
    raise_descriptor_limit()
    # Created before anything listens, so that faulty settings end the command with their message.
    service = create_service(settings)
    application: FastAPI | str = create_app(settings, service)
    with ExitStack() as stack:
        if settings.workers > 1:
            # Each process creates its own application from the environment, which repeats the flags.
            os.environ.update(_environment(settings))
            os.environ[WORKERS_DIRECTORY] = str(stack.enter_context(shared_directory()))
            application = "app.main:create_app"
        config = uvicorn.Config(
            application,
            factory=isinstance(application, str),
            host=settings.host,
            port=settings.port,
            workers=settings.workers,
            # The protocol is written for this loop, and requests take as long in uvloop's.
            loop="asyncio",
            http=PunctualProtocol,
            log_config=logging_config(settings.log_format, settings.log_level),
            # app.telemetry logs a line for every request.
            access_log=False,
            backlog=accepted_at_once(),
            timeout_keep_alive=settings.keep_alive_seconds,
            timeout_graceful_shutdown=settings.grace_seconds,
            timeout_worker_healthcheck=_WORKER_SECONDS,
            server_header=False,
            ssl_certfile=settings.tls_certificate,
            ssl_keyfile=settings.tls_key,
        )
        greet(settings, service)
        run_server(config)


def _check_address(settings: Settings) -> None:
    if settings.tokens_file is None and settings.auth == "on" and not is_loopback(settings.host):
        raise SettingsError(
            f"{ENVIRONMENT_PREFIX}HOST: other machines reach {settings.host}, and nothing says who may ask: "
            f"give --tokens-file or {ENVIRONMENT_PREFIX}TOKENS_FILE (paimon-index token new makes tokens), "
            f"answer everybody with --no-auth or {ENVIRONMENT_PREFIX}AUTH=off, or listen on 127.0.0.1"
        )


def _check_certificate(settings: Settings) -> None:
    if settings.tls_certificate is None:
        return
    try:
        # Without a password OpenSSL would prompt on the terminal; an empty one fails for an encrypted key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
            settings.tls_certificate, settings.tls_key, password=""
        )
    except OSError as error:
        raise SettingsError(
            f"{ENVIRONMENT_PREFIX}TLS_CERTIFICATE: no certificate with its key can be read from "
            f"{settings.tls_certificate} and {settings.tls_key or 'the same file'}: {error.strerror or error}"
        ) from error


def _check_port(settings: Settings) -> None:
    if not settings.port:
        return
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((settings.host, settings.port))
        except OSError as error:
            advice = (
                "another process listens there: give another one with --port, or 0 for a free one"
                if error.errno == errno.EADDRINUSE
                else str(error.strerror or error)
            )
            raise SettingsError(
                f"{ENVIRONMENT_PREFIX}PORT: cannot listen at {settings.host}:{settings.port}: {advice}"
            ) from error


def _environment(settings: Settings) -> Mapping[str, str]:
    given = settings.model_dump(mode="json", include=settings.model_fields_set)
    return {
        ENVIRONMENT_PREFIX + name.upper(): value if isinstance(value, str) else json.dumps(value)
        for name, value in given.items()
    }


def demo(
    *,
    port: Annotated[int | None, typer.Option(min=1, help="Port to listen on; 8080 unless given.")] = None,
) -> None:
    """Serve sample tables and nothing else, to try the explorer and the API."""
    settings = Settings.load(warehouses={"main": str(_SAMPLES.resolve())}, port=port)
    if settings.tokens_file is None and not is_loopback(settings.host):
        # A container listens on all addresses, and the samples are public.
        settings = settings.model_copy(update={"auth": "off"})
    run_service(settings, _greet)


def _greet(settings: Settings, _: IndexService) -> None:
    url = address_of(settings)
    print_line(f"Explorer: {explorer_place(settings)} (Ctrl-C ends the service)")
    print_line("Sample tables: main.demo.sessions, main.demo.users, main.demo.visits. From another terminal:")
    for endpoint, body in _FIRST_QUESTIONS:
        print_line(f"  curl -s {url}/v1/main/databases/demo/tables/{endpoint} -d '{body}'")


def show_banner(settings: Settings, service: IndexService) -> None:
    """Print the explorer's address and each warehouse's databases, if there is a terminal."""
    if sys.stdout.isatty():
        # In a thread: a slow terminal or storage must not delay the service.
        threading.Thread(target=_print_banner, args=(settings, service), name="banner", daemon=True).start()


def explorer_place(settings: Settings) -> str:
    """Return the address at which a browser on this machine finds the explorer."""
    if not settings.port:
        return "/ui at the address that the line below names"
    return f"{address_of(settings)}/ui"


def address_of(settings: Settings) -> str:
    """Return the service's URL for this machine."""
    scheme = "http" if settings.tls_certificate is None else "https"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    if settings.host in ("127.0.0.1", "0.0.0.0", "::", "::1"):  # noqa: S104 - compared
        host = "localhost"
    return f"{scheme}://{host}:{settings.port}"


def _print_banner(settings: Settings, service: IndexService) -> None:
    with suppress(OSError):
        print_line(f"Explorer: {explorer_place(settings)} (Ctrl-C ends the service)")
        for name, warehouse in service.warehouses.items():
            try:
                with time_limit(_LISTING_SECONDS):
                    databases = service.tables.databases(name)
                text = f"databases {listed(databases)}" if databases else "no database yet"
            except PaimonIndexError as error:
                text = str(error)
            print_line(f"Warehouse {name} at {warehouse.public_url}: {text}")


def openapi() -> None:
    """Print the OpenAPI document."""
    settings = Settings.load(warehouses={})
    service = IndexService({}, cache_bytes=CacheBytes(), limits=settings.limits)
    document = create_app(settings, service).openapi()
    yaml.safe_dump(document, sys.stdout, sort_keys=False, allow_unicode=True, width=110)
