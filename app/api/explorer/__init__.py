"""``/ui``: a page that shows why files are read or skipped, made of the API's own answers.

Its files are those of this directory, as they are: no other host, no build step. They hold nothing secret, so
they need no token; what they ask of the API does.
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
"""The names of the page's files."""

PATHS: Final = ("/ui", *(f"/ui/{name}" for name in FILES if name != _PAGE))
"""The paths of the page and of the files that it loads."""

# Markup that is made of texts is refused as well, so that no name of a table can become part of the page.
_POLICY: Final = (
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'; "
    "require-trusted-types-for 'script'"
)


async def explorer_file(request: Request) -> Response:
    """Give the page, or one of its files; a browser that has it asks whether it changed."""
    name = request.scope["route"].path.removeprefix("/ui").removeprefix("/") or _PAGE
    content, tag = _file(name)
    headers = {"ETag": tag, "Content-Security-Policy": _POLICY}
    known = request.headers.get("if-none-match", "")
    if tag.strip('"') in known:
        # A compressed answer's tag is this one and a suffix.
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=_MEDIA_TYPES[name[name.rindex(".") :]], headers=headers)


for _path in PATHS:
    router.add_api_route(_path, explorer_file, methods=["GET"], name=_path)


@cache
def _file(name: str) -> tuple[bytes, str]:
    content = files("app.api.explorer").joinpath(name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()[:32]}"'
