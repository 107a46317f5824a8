"""Configuration of dataclasses that are answers.

OpenAPI is generated from their annotations and from the texts below their members. A member whose default is
None is omitted from JSON if it is None. Every other member is always present.
"""

from typing import Final

# No schema of an answer forbids unknown members, since later releases may add some.
DESCRIBED: Final = {"use_attribute_docstrings": True}
"""``__pydantic_config__`` of a class that is a whole answer; it holds for the classes of members."""

ALWAYS_THERE: Final = {**DESCRIBED, "json_schema_serialization_defaults_required": True}
"""Configuration of classes whose defaults are for callers only, and whose members are all in JSON."""
