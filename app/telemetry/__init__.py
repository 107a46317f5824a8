"""Metrics, a log line per request, and traces.

:mod:`app.observation` reports events. The rooms below do not depend on the libraries used here.
"""

from app.telemetry.logs import event_record, logging_config
from app.telemetry.service import Accounting, Telemetry

__all__ = [
    # Middleware that accounts for requests.
    "Accounting",
    # Metrics, lines and spans of a process.
    "Telemetry",
    # The record of an event, as log lines have it.
    "event_record",
    # The configuration of logging.
    "logging_config",
]
