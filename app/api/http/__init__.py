"""HTTP parts that all endpoints share: paths, JSON, ``Accept``, problems, and the headers of every answer."""

from app.api.http.headers import Compression, HeadMiddleware, RequestIds, SecurityHeaders
from app.api.http.problems import ProblemError, problem_of, problem_of_status
from app.api.http.strict_json import read_json, write_json

__all__ = [
    # Compresses answers for callers who accept gzip.
    "Compression",
    # ASGI middleware that answers HEAD as GET, without the body.
    "HeadMiddleware",
    # An error that is answered with a given problem.
    "ProblemError",
    # ASGI middleware that gives requests ids, and answers 500 for bugs.
    "RequestIds",
    # Middleware that adds security headers.
    "SecurityHeaders",
    # The problem that an exception is answered with.
    "problem_of",
    # The problem of a bare status.
    "problem_of_status",
    # Reads JSON strictly.
    "read_json",
    # Writes JSON.
    "write_json",
]
