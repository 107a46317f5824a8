"""The server around the application: its connections, its shutdown, and several processes of it."""

from app.server.connections import PunctualProtocol, accepted_at_once, raise_descriptor_limit, request_limit
from app.server.processes import VARIABLE, Processes, shared_directory
from app.server.stopping import Stopping, run_server

__all__ = [
    # The environment variable that names the directory of a run.
    "VARIABLE",
    # The worker processes of one run.
    "Processes",
    # uvicorn's HTTP/1.1 with deadlines for heads, and for answers that nobody takes.
    "PunctualProtocol",
    # The state of a process that is stopping.
    "Stopping",
    # The backlog of connections.
    "accepted_at_once",
    # Raises the limit of open files.
    "raise_descriptor_limit",
    # Limit of requests in flight, by the number of file descriptors.
    "request_limit",
    # Serves until a signal ends it.
    "run_server",
    # A directory for the processes of one run.
    "shared_directory",
]
