"""Requests without a route: messages that suggest the intended path or method."""

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
"""Methods of each path; without Iceberg's, whose clients build their paths themselves."""
for _method, _, _path in (route.partition(" ") for route in ACCESS):
    if not _path.startswith(ICEBERG):
        _METHODS.setdefault(_path, []).append(_method)
_WAREHOUSES: Final = "warehouses"
_WORDS: Final = {_WAREHOUSES, *(each for path in _METHODS for each in path.split("/") if "{" not in each)}
_PATHS: Final = {re.compile(re.sub(r"\{\w+\}", "[^/]+", path)): path for path in _METHODS}


def unknown_path(request: Request) -> str:
    """Explain that a path does not exist, and suggest another one."""
    path = request.url.path
    if path.startswith(f"{ICEBERG}/"):
        is_served = any(getattr(route, "path", "").startswith(ICEBERG) for route in request.app.routes)
        listing = f"GET {ICEBERG}/v1/config lists what Iceberg's catalog has"
        missing = "this service has no Iceberg catalog, which PAIMON_INDEX_ICEBERG=true switches on"
        return f"there is nothing at {path:.200}: {listing if is_served else missing}"
    # Paths of another version, and the command line's name of an endpoint.
    current = re.sub(r"/count$", "/aggregate", re.sub(r"^/v\d+(?=/|$)", "/v1", path))
    segments = current.strip("/").split("/")[:_MOST_SEGMENTS]
    meant = alike(
        current, sorted({filled for template in _METHODS for filled in _filled(template, segments)})
    )
    if not meant:
        # With the wrong number of segments, the last one shows the intended path.
        last = f"/{segments[-1]}"
        meant = [template for template in _METHODS if template.startswith("/v1/") and template.endswith(last)]
    advice = f"did you mean {meant[0]}? " if meant else ""
    return f"there is nothing at {path:.200}: {advice}GET /docs lists every path, as does GET /openapi.json"


def wrong_method(request: Request) -> str:
    """Explain which methods the path of a request takes."""
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
        # The caller's table does not have the example's columns.
        example = '{"filter": "COLUMN = 5"}'
    return f"{fault}, with a JSON object as the body: curl {request.url} -d '{_quoted(example)}'"


def _filled(template: str, segments: list[str]) -> Iterator[str]:
    parts = template.strip("/").split("/")
    for given in (segments, ["v1", *segments], [each for each in segments if each != _WAREHOUSES]):
        if len(given) == len(parts):
            pairs = list(zip(parts, given, strict=True))
            # A word of the API in another place means that the path has other segments.
            if all(each == part or each not in _WORDS for part, each in pairs):
                yield "/" + "/".join(each if part.startswith("{") else part for part, each in pairs)


def _quoted(text: str) -> str:
    return text.replace("'", "'\\''")
