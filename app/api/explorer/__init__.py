"""``/ui``: a page that shows why files are read or skipped, built from the API's own answers.

Its files are served from this directory as they are: no other host, no build step. They hold nothing secret
and need no token. Their requests to the API do.
"""

import hashlib
from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

router = APIRouter(include_in_schema=False)

_MEDIA_TYPES: Final = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_PAGE: Final = "index.html"
FILES: Final = tuple(
    sorted(
        file.name for file in files("app.api.explorer").iterdir() if file.name.endswith(tuple(_MEDIA_TYPES))
    )
)
"""Names of the page's files."""

PATHS: Final = ("/ui", *(f"/ui/{name}" for name in FILES if name != _PAGE))
"""Paths of the page and of the files that it loads."""

# Trusted types keep names of tables from becoming markup of the page.
_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'"
)


async def explorer_file(request: Request) -> Response:
    """Serve the page, or one of its files, with an ``ETag`` for revalidation."""
    name = request.scope["route"].path.removeprefix("/ui").removeprefix("/") or _PAGE
    content, tag = _file(name)
    headers = {"ETag": tag, "Content-Security-Policy": _POLICY}
    if_none_match = request.headers.get("if-none-match", "")
    if tag.strip('"') in if_none_match:
        # Compression may have added a suffix to the tag.
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name[name.rindex(".") :]], headers=headers)


for _path in PATHS:
    router.add_api_route(_path, explorer_file, methods=["GET"], name=_path)


@cache
def _file(name: str) -> tuple[bytes, str]:
    content = files("app.api.explorer").joinpath(name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
