"""Iceberg's own OpenAPI document of its REST catalog, as a judge of answers.

``rest-catalog-open-api.yaml`` is of Apache Iceberg's repository, as it was on 2026-08-21, with its licence.
It is of OpenAPI 3.1 and is read with three mistakes mended: a primitive value is *one of* types that a number
may have at once, ``nullable`` is of OpenAPI 3.0, and the answer 406 has its example in another form than its
schema, which no client reads.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

_PATH: Final = Path(__file__).with_name("rest-catalog-open-api.yaml")
_URI: Final = "urn:iceberg"
_DEFINED_TWICE: Final = ("PrimitiveTypeValue",)


@cache
def document() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.load(_PATH.read_text(), yaml.CSafeLoader)
    schemas = loaded["components"]["schemas"]
    _mend_nullable(loaded)
    for name in _DEFINED_TWICE:
        schemas[name]["anyOf"] = schemas[name].pop("oneOf")
    return loaded


def _mend_nullable(part: object) -> None:
    if isinstance(part, dict) and part.get("nullable") is True:
        part["type"] = [part["type"], "null"]
    for each in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        _mend_nullable(each)


def validate_schema(value: object, name: str) -> None:
    """Assert that a value has the shape of a schema of the document."""
    _validate(value, f"#/components/schemas/{name}")


def validate_answer(value: object, method: str, path: str, status: int) -> None:
    """Assert that an endpoint may give this answer; a few statuses that it does not name are errors."""
    responses = document()["paths"][path][method.lower()]["responses"]
    names = (status, str(status), f"{status // 100}XX")
    response = next((responses[name] for name in names if name in responses), None)
    assert response is not None or status in (406, 408, 413, 424, 429), (
        f"{method} {path} has no status {status}"
    )
    if response is None or status >= 400:
        if method != "HEAD":
            validate_schema(value, "IcebergErrorResponse")
        return
    if "$ref" in response:
        response = document()["components"]["responses"][response["$ref"].rpartition("/")[2]]
    if "content" not in response:
        assert value is None
        return
    _validate(value, response["content"]["application/json"]["schema"]["$ref"])


def _validate(value: object, reference: str) -> None:
    _validator(reference).validate(value)


@cache
def _validator(reference: str) -> Draft202012Validator:
    # Beside what `make lint` installs, jsonschema takes two seconds to import, which collecting need not.
    from jsonschema import Draft202012Validator  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.jsonschema import DRAFT202012  # noqa: PLC0415

    registry: Registry[Any] = Registry().with_resource(_URI, DRAFT202012.create_resource(document()))
    return Draft202012Validator({"$ref": f"{_URI}{reference}"}, registry=registry)
