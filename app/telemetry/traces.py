"""Traces are sent where the environment says so, by OpenTelemetry's own variables.

The library is imported then only: it is an extra, and takes as long to import as the rest of this package.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from app.telemetry.spans import Tracing

_WHERE: Final = (
    "OTEL_TRACES_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
)

_log = logging.getLogger("paimon_index")


def start_tracing() -> Tracing | None:
    """What traces requests; None where nothing says where traces should go, or nothing can send them."""
    wanted = any(os.environ.get(name) for name in _WHERE)
    if not wanted or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    try:
        # Here and not above: see the module's docstring.
        from app.telemetry.spans import Tracing  # noqa: PLC0415
    except ImportError:
        _log.warning(
            "OTEL_* variables ask for traces: install this package with its extra [otel] to have them sent"
        )
        return None
    return Tracing.from_environment()
