"""Authentication, authorisation, and bounds on the number of requests."""

from app.api.gate.access import (
    Authentication,
    Gate,
    authorise,
    everybody,
    open_paths,
    this_machine,
    tokens_of,
)
from app.api.gate.admission import MOST_REQUESTS, Admission, refuse_unread

__all__ = [
    # Requests in flight in one process.
    "MOST_REQUESTS",
    # Middleware that admits, queues and refuses requests.
    "Admission",
    # Middleware that identifies callers.
    "Authentication",
    # Finds the caller of a request.
    "Gate",
    # Checks that the caller may use the place that the path names.
    "authorise",
    # The gate of a service that answers every caller.
    "everybody",
    # Paths that need no token.
    "open_paths",
    # Builds a 429 from the first bytes of a request.
    "refuse_unread",
    # The gate of a service without tokens.
    "this_machine",
    # The gate of a service with tokens.
    "tokens_of",
]
