"""What is told to the libraries of object stores: fresh listings, short silences, nothing repeated.

A library that repeats by itself multiplies what is repeated above it (:mod:`app.storage.retry`), and answers
late. One that waits long for a store that has fallen silent holds up a request that another attempt would
serve. Not every library has options for that; then what it does is set where it keeps it.
"""

from __future__ import annotations

from inspect import unwrap
from types import MethodType
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

_MOST_CONNECTIONS: Final = 1000
"""Of one warehouse: more than it has threads that ask, since no timeout bounds the wait for a connection."""

_LIBRARIES: Final = {
    "s3": "s3",
    "gs": "gcs",
    "gcs": "gcs",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "oss": "oss",
    "http": "http",
    "https": "http",
}


def store_options(protocol: str, stall_seconds: float) -> dict[str, Any]:
    """What a store's filesystem is made with; nothing for what is no store.

    Args:
        protocol: ``s3``; what fsspec knows.
        stall_seconds: how long the store may be silent in a call.
    """
    library = _LIBRARIES.get(protocol)
    if library is None:
        return {}
    # Warehouses of one store share no connections. The newest snapshot is found by listings.
    common: dict[str, Any] = {"skip_instance_cache": True, "use_listings_cache": False}
    match library:
        case "s3":
            return common | {
                "config_kwargs": {
                    "connect_timeout": stall_seconds,
                    # Between two pieces of an answer.
                    "read_timeout": stall_seconds,
                    "retries": {"total_max_attempts": 1},
                    "max_pool_connections": _MOST_CONNECTIONS,
                }
            }
        case "gcs":
            return common | {"requests_timeout": _stalls(stall_seconds)}
        case "http":
            return common | {"client_kwargs": {"timeout": _stalls(stall_seconds)}}
        case _:
            return common


def set_up(filesystem: AbstractFileSystem, protocol: str, stall_seconds: float) -> None:
    """Sets what no option of a library sets.

    Args:
        filesystem: was made with :func:`store_options`.
        protocol: as of these.
        stall_seconds: likewise.
    """
    match _LIBRARIES.get(protocol):
        case "s3":
            # Of the class otherwise.
            filesystem.retries = 1
        case "gcs":
            request = unwrap(type(filesystem)._request)  # noqa: SLF001 - below what repeats it
            filesystem._request = MethodType(request, filesystem)  # noqa: SLF001
        case "azure":
            client = filesystem.service_client
            client._config.retry_policy.total_retries = 0  # noqa: SLF001 - only an option of each call
            transport = client._pipeline._transport.connection_config  # noqa: SLF001 - likewise
            transport.timeout = transport.read_timeout = stall_seconds
        case "oss":
            open_bucket, call = filesystem._get_bucket, filesystem._call_oss  # noqa: SLF001 - likewise
            filesystem._get_bucket = lambda name, _=None: open_bucket(name, stall_seconds)  # noqa: SLF001
            filesystem._call_oss = lambda method, *arguments, **options: call(  # noqa: SLF001
                method,
                *arguments,
                retry=1,
                **(options | {"max_retries": 1} if method.endswith("Iterator") else options),
            )


def _stalls(stall_seconds: float) -> object:
    # It comes with the libraries that it is for.
    from aiohttp import ClientTimeout  # noqa: PLC0415

    return ClientTimeout(total=None, sock_connect=stall_seconds, sock_read=stall_seconds)
