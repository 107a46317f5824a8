"""Dataclasses that are answers: OpenAPI is made of their annotations and of the texts below their members.

A member whose default is None is left out of JSON where it is None; every other member is always there.
"""

from typing import Final

DESCRIBED: Final = {"use_attribute_docstrings": True}
"""What a class that is a whole answer has as ``__pydantic_config__``; classes of its members follow it.

Members may come, so no schema of an answer forbids them.
"""

ALWAYS_THERE: Final = {**DESCRIBED, "json_schema_serialization_defaults_required": True}
"""The same of a class whose defaults are for those who make one, and whose members are all in JSON."""
