"""Requests that no route takes: which path or method may have been meant."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from starlette.requests import Request

from app.api.gate.access import ACCESS
from app.api.http.paths import ICEBERG
from app.api.openapi import BODIES
from app.suggestions import alike

_MOST_SEGMENTS: Final = 20
_METHODS: Final[dict[str, list[str]]] = {}
"""Of each path; Iceberg's clients make their paths themselves."""
for _method, _, _path in (route.partition(" ") for route in ACCESS):
    if not _path.startswith(ICEBERG):
        _METHODS.setdefault(_path, []).append(_method)
_PATHS: Final = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): path for path in _METHODS}


def unknown_path(request: Request) -> str:
    """What to say where there is nothing at the path of a request."""
    path = request.url.path
    if path.startswith(f"{ICEBERG}/"):
        is_served = any(getattr(route, "path", "").startswith(ICEBERG) for route in request.app.routes)
        told = f"GET {ICEBERG}/v1/config lists what Iceberg's catalog has"
        missing = "this service has no Iceberg catalog, which PAIMON_INDEX_ICEBERG=true switches on"
        return f"there is nothing at {path:.200}: {told if is_served else missing}"
    # Another version, and what the command line calls it.
    known = re.sub(r"/count$", "/aggregate", re.sub(r"^/v\d+(?=/|$)", "/v1", path))
    segments = known.strip("/").split("/")[:_MOST_SEGMENTS]
    meant = alike(known, sorted({filled for template in _METHODS for filled in _filled(template, segments)}))
    advice = f"did you mean {meant[0]}? " if meant else ""
    return f"there is nothing at {path:.200}: {advice}GET /docs lists every path, as does GET /openapi.json"


def wrong_method(request: Request) -> str:
    """What to say where the path of a request is asked by other methods."""
    path = request.url.path.removeprefix(request.scope.get("root_path", ""))
    if path.startswith(f"{ICEBERG}/"):
        return (
            f"{request.method} is not taken here: Iceberg's catalog is read only, and "
            f"GET {ICEBERG}/v1/config lists its endpoints"
        )
    template = next((template for pattern, template in _PATHS.items() if pattern.fullmatch(path)), "")
    fault = (
        f"{request.method} is not taken here, {' and '.join(_METHODS.get(template, ['another method']))} is"
    )
    body = BODIES.get(template)
    if body is None:
        return fault
    example = body.example_text()
    if "filter" in body.example and not any(field.is_required() for field in body.model_fields.values()):
        # The example's columns are not those of this table.
        example = '{"filter": "COLUMN = 5"}'
    return f"{fault}, with a JSON object as the body: curl {request.url} -d '{_quoted(example)}'"


def _filled(template: str, segments: list[str]) -> Iterator[str]:
    wanted = template.strip("/").split("/")
    for given in (segments, ["v1", *segments]):
        if len(given) == len(wanted):
            pairs = zip(wanted, given, strict=True)
            yield "/" + "/".join(have if want.startswith("{") else want for want, have in pairs)


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")
