"""``/docs`` and ``/openapi.json``: the API, to read and to try out in a browser.

The page loads nothing from other hosts: Swagger UI comes from the package ``fastapi-offline``, which ships
its files, and the page's own script is a file, so that the page's policy can forbid all others.
"""

from functools import cache
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.strict_json import write_json

router = APIRouter(include_in_schema=False)

_PAGE: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>paimon-index</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
"""
# Swagger UI would ask another host to validate the document. Secrets that are typed in stay in memory.
_START: Final = b"""SwaggerUIBundle({
  url: "openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
});
"""
_POLICY: Final = {
    # Swagger UI writes styles into the page and has its icons as data.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}
_UNTIL_NEXT_RELEASE: Final = {"Cache-Control": "private, max-age=3600"}


@router.get("/openapi.json")
async def openapi_document(request: Request) -> Response:
    """Give the OpenAPI document."""
    return Response(write_json(request.app.openapi()), media_type="application/json")


@router.get("/docs")
async def page() -> Response:
    """Show the documentation."""
    return Response(_PAGE, media_type="text/html", headers=_POLICY)


@router.get("/docs/start.js")
async def start() -> Response:
    """Give the script that shows the document."""
    return Response(_START, media_type="text/javascript", headers=_UNTIL_NEXT_RELEASE)


@router.get("/docs/swagger-ui-bundle.js")
async def script() -> Response:
    """Give Swagger UI."""
    return Response(_asset("swagger-ui-bundle.js"), media_type="text/javascript", headers=_UNTIL_NEXT_RELEASE)


@router.get("/docs/swagger-ui.css")
async def style() -> Response:
    """Give the style of Swagger UI."""
    return Response(_asset("swagger-ui.css"), media_type="text/css", headers=_UNTIL_NEXT_RELEASE)


@cache
def _asset(name: str) -> bytes:
    return files("fastapi_offline").joinpath("static", name).read_bytes()
