"""The OpenAPI document: FastAPI's view of the routes, with bodies and problems added.

:class:`app.api.questions.bodies.JsonBody` reads bodies, and answers are written without models, so FastAPI
sees neither. :func:`operation` describes them at each route, and :func:`document` adds the schemas.

``/docs`` shows the document without loading anything from other hosts: the package ``fastapi-offline`` ships
Swagger UI's files. The page's own script is a file too, so that the page's policy can forbid all others.
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, Final

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from app import errors
from app.advice import WhatIfRequest
from app.aggregates import AggregateRequest
from app.api.gate.access import ACCESS, Access
from app.api.http.paths import TABLE
from app.api.http.problems import MEDIA_TYPE, ProblemDetails, problem_of, problem_of_status
from app.api.http.strict_json import write_json
from app.api.questions.bodies import ChangesBody, DeletionsBody, PlanBody, PrunedSnapshotBody
from app.planning.request import AssignRequest, EvaluateRequest, InspectRequest, LookupRequest
from app.planning.request.members import Request as Question

_REFERENCE = "#/components/schemas/{model}"

BODIES: dict[str, type[Question]] = {
    f"{TABLE}/plan": PlanBody,
    f"{TABLE}/pruned-snapshot": PrunedSnapshotBody,
    f"{TABLE}/aggregate": AggregateRequest,
    f"{TABLE}/changes": ChangesBody,
    f"{TABLE}/deletions": DeletionsBody,
    f"{TABLE}/buckets/lookup": LookupRequest,
    f"{TABLE}/buckets/assign": AssignRequest,
    "/v1/{warehouse}/index-files/evaluate": EvaluateRequest,
    "/v1/{warehouse}/index-files/inspect": InspectRequest,
    f"{TABLE}/what-if": WhatIfRequest,
}
"""Every kind of body, by the path that takes it."""

_DESCRIPTION = """\
Answers from Apache Paimon index files: which files of a table a query reads and which of their rows, which
rows are deleted, and which bucket a key lives in.
"""

_TAGS = [
    {"name": "planning", "description": "Which files and rows does a query read?"},
    {"name": "aggregates", "description": "How many rows, which values, without reading data?"},
    {"name": "deletions", "description": "Which rows are deleted?"},
    {"name": "buckets", "description": "Which bucket does a key live in?"},
    {"name": "index files", "description": "Index files on their own, without a table."},
    {"name": "discovery", "description": "What is there?"},
    {"name": "advice", "description": "Which indexes are worth what they cost?"},
    {"name": "operations", "description": "Running the service."},
]

_DESCRIPTIONS = {
    400: "The request is malformed.",
    401: "A token is needed, and there was none or an unknown one.",
    403: "The token may not use this warehouse or database, or needs another role.",
    404: "Warehouse, database, table, snapshot, tag, branch or file not found.",
    405: "The path takes other methods.",
    408: "The body did not arrive in time.",
    409: "The snapshot expired while it was read.",
    413: "The body is over the limit.",
    415: "The body is compressed.",
    422: "A filter, key or partition does not fit the table, or the request is over a limit.",
    424: "An index or metadata file is corrupt.",
    429: "Too many requests are in flight.",
    500: "A bug.",
    503: "Not ready, shutting down, or storage failed.",
    504: "Storage or planning took too long.",
}
_ALWAYS = {405, 429, 500, 503}
_STORAGE = {400, 404, 409, 422, 424, 504}
_BODY = {408, 413, 415}
_GUARDED = {401, 403}
_SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "description": "A secret of the tokens file. Without such a file, the service requires no token.",
}

_HEADERS: Final[dict[str, Any]] = {
    "ETag": {
        "description": "A weak tag of this answer. Absent if the next answer may differ, as after a plan "
        "that ran out of time.",
        "schema": {"type": "string"},
        "example": 'W/"0f1e2d3c4b5a69788796a5b4c3d2e1f0"',
    },
    "X-Snapshot-Age-Ms": {
        "description": "Milliseconds since the version was read from storage.",
        "schema": {"type": "string"},
        "example": "0",
    },
    "X-Request-Id": {
        "description": "The id of the request: the caller's own, if it sent one.",
        "schema": {"type": "string"},
        "required": True,
        "example": "6f1d2a0c5b7e4b0f9a3f1c2d4e5f6a7b",
    },
    "Retry-After": {
        "description": "Seconds after which to repeat the request.",
        "schema": {"type": "string"},
        "example": "1",
    },
    "WWW-Authenticate": {
        "description": "How to send a token.",
        "schema": {"type": "string"},
        "example": 'Bearer realm="paimon-index"',
    },
    "Allow": {
        "description": "The methods that the path takes.",
        "schema": {"type": "string"},
        "example": "POST",
    },
}
_HEADERS_OF: Final = {
    401: ("WWW-Authenticate",),
    405: ("Allow",),
    429: ("Retry-After",),
    503: ("Retry-After",),
}
_IF_NONE_MATCH: Final = {
    "name": "If-None-Match",
    "in": "header",
    "description": "ETags of answers that the caller has; if the answer is one of them, the status is 304.",
    "schema": {"type": "string"},
}

_EXAMPLES = {
    problem.status: problem
    for problem in (
        problem_of(errors.RequestError("page_size: must be at least 1, found 0")),
        problem_of_status(401, "the token is not known here"),
        problem_of_status(403, "the token 'reports' may not use warehouse 'main'"),
        problem_of(errors.NotFoundError("there is no table demo.event: did you mean 'events'?")),
        problem_of_status(405, "GET is not taken here, POST is, with a JSON object as the body"),
        problem_of_status(408, "the body did not arrive within 30 s"),
        problem_of(errors.SnapshotExpiredError("snapshot 12 went away while it was read")),
        problem_of_status(413, "the body is over the limit of 33554432 bytes", limit=33_554_432),
        problem_of_status(415, "the body has Content-Encoding gzip: send it as it is, without the header"),
        problem_of(
            errors.FilterError("there is no column 'scor': did you mean 'score'?", column="scor", position=0)
        ),
        problem_of(
            errors.CorruptIndexError("magic 1, expected 1581511376", offset=1, path="t/index/index-7-0")
        ),
        problem_of_status(429, "256 requests are in flight already", limit=256),
        problem_of(ZeroDivisionError()),
        problem_of_status(503, "the service is starting or shutting down"),
        problem_of(errors.DeadlineExceededError("the request did not finish within 30 s")),
    )
}

_NULL: Final = {"type": "null"}
_ABOUT: Final = {"title", "description", "default", "examples"}

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


def operation(
    answer: type | None,
    body: type[Question] | None = None,
    *,
    storage: bool = True,
    tagged: bool = False,
    streams: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """Describe a route to FastAPI.

    ``answer``: shape of the answer in JSON. None if it has only other forms. ``tagged``: answers have an
    ``ETag``, and are 304 for callers who send it. ``streams``: descriptions of other forms of the answer, by
    media type.
    """
    statuses = _ALWAYS | (_STORAGE if storage else set()) | (_BODY if body else set())
    content = {
        media_type: {"schema": {"type": "string", "format": "binary", "description": text}}
        for media_type, text in (streams or {}).items()
    }
    responses: dict[int, dict[str, Any]] = {200: {"description": "The answer.", "content": content}}
    responses |= {status: {"description": _DESCRIPTIONS[status]} for status in sorted(statuses)}
    extra: dict[str, Any] = {}
    described: dict[str, Any] = {"responses": responses, "openapi_extra": extra}
    if answer is None:
        described["response_class"] = Response
    else:
        responses[200]["model"] = answer
    if tagged:
        headers = _headers("ETag", "X-Snapshot-Age-Ms")
        responses[200]["headers"] = headers
        responses[304] = {"description": "The caller has this answer already.", "headers": headers}
        extra["parameters"] = [_IF_NONE_MATCH]
    if body is not None:
        schema = {"$ref": _REFERENCE.format(model=_body_name(body.__name__))}
        json_content = {"application/json": {"schema": schema, "example": body.example}}
        extra["requestBody"] = {"required": True, "content": json_content}
    return described


class _Bodies(GenerateJsonSchema):
    """Schemas of requests, by the names that bodies have in the contract. Null is an absent member."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        made = super().model_schema(schema) | {"title": _body_name(schema["cls"].__name__)}
        for name in made["properties"].keys() - set(made.get("required", ())):
            member = made["properties"][name]
            if _NULL not in member.get("anyOf", ()):
                about = {key: member.pop(key) for key in _ABOUT & member.keys()}
                made["properties"][name] = {"anyOf": [member, _NULL], **about}
        return made

    def normalize_name(self, name: str) -> str:
        return _body_name(super().normalize_name(name))


def _body_name(request: str) -> str:
    return re.sub("(?:Body|Request|Ref)?$", "Body", request, count=1)


def _schemas(generator: type[GenerateJsonSchema], *described: type) -> dict[str, Any]:
    _, schemas = TypeAdapter.json_schemas(
        [(number, "validation", TypeAdapter(each)) for number, each in enumerate(described)],
        ref_template=_REFERENCE,
        schema_generator=generator,
    )
    return dict(schemas["$defs"])


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def text_operation(description: str) -> dict[str, Any]:
    """Describe a route whose answer is plain text."""
    content = {"text/plain": {"schema": {"type": "string"}}}
    always = {status: {"description": _DESCRIPTIONS[status]} for status in sorted(_ALWAYS)}
    return {
        "response_class": PlainTextResponse,
        "responses": {200: {"description": description, "content": content}, **always},
    }


def document(app: FastAPI) -> dict[str, Any]:
    """Build the OpenAPI document of ``app`` once."""
    if app.openapi_schema is None:
        made = get_openapi(
            title=app.title,
            version=app.version,
            description=_DESCRIPTION,
            routes=app.routes,
            tags=_TAGS,
            servers=[{"url": "/", "description": "The service that gave this document."}],
            license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        )
        made["components"]["schemas"] |= _schemas(GenerateJsonSchema, ProblemDetails)
        made["components"]["schemas"] |= _schemas(_Bodies, *BODIES.values())
        made["components"]["headers"] = _HEADERS
        made["components"]["responses"] = {f"Problem{status}": _problem(status) for status in _DESCRIPTIONS}
        made["components"]["securitySchemes"] = {"token": _SECURITY}
        for path, methods in made["paths"].items():
            for method, described in methods.items():
                if ACCESS.get(f"{method.upper()} {path}") is not Access.OPEN:
                    described["security"] = [{"token": []}]
                    described["responses"] |= {str(status): {} for status in _GUARDED}
                _refer_to_problems(described["responses"])
                for answer in described["responses"].values():
                    if "$ref" not in answer:
                        answer["headers"] = answer.get("headers", {}) | _headers("X-Request-Id")
        app.openapi_schema = made
    return app.openapi_schema


def _refer_to_problems(responses: dict[str, Any]) -> None:
    for status in sorted(responses):
        described = responses.pop(status)
        is_problem = int(status) in _DESCRIPTIONS
        responses[status] = {"$ref": f"#/components/responses/Problem{status}"} if is_problem else described


def _problem(status: int) -> dict[str, Any]:
    schema = {"$ref": _REFERENCE.format(model=ProblemDetails.__name__)}
    example = _EXAMPLES[status].to_json("6f1d2a0c5b7e4b0f9a3f1c2d4e5f6a7b")
    return {
        "description": _DESCRIPTIONS[status],
        "headers": _headers("X-Request-Id", *_HEADERS_OF.get(status, ())),
        "content": {MEDIA_TYPE: {"schema": schema, "example": example}},
    }


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
