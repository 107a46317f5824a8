# ruff: noqa: INP001 - a program of its own, in no package
"""Tells by its exit status whether the service of this container lives: 0 if ``GET /health/live`` is 200.

The image has no curl. The address is the service's own, from its environment. Certificates are not checked,
since they name the service as callers know it. Only the standard library is imported: a check is quick.
"""

from __future__ import annotations

import os
import ssl
import sys
from http.client import OK, HTTPConnection, HTTPException, HTTPSConnection

_SECONDS = 4
# Who listens on every address is asked on this machine's own.
_OWN_ADDRESSES = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - not listened on


def main() -> int:
    """Ask in plain text, then, where nobody understands that, by TLS."""
    host = os.environ.get("PAIMON_INDEX_HOST", "127.0.0.1")
    host = _OWN_ADDRESSES.get(host, host)
    port = int(os.environ.get("PAIMON_INDEX_PORT", "8080"))
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    connections = (
        HTTPConnection(host, port, timeout=_SECONDS),
        HTTPSConnection(host, port, timeout=_SECONDS, context=context),
    )
    for connection in connections:
        try:
            connection.request("GET", "/health/live")
            status = connection.getresponse().status
        except (OSError, HTTPException) as error:
            fault = f"{host}:{port} does not answer: {error}"
        else:
            fault = "" if status == OK else f"/health/live answers {status}"
            break
        finally:
            connection.close()
    if fault:
        sys.stderr.write(f"{fault}\n")
    return 1 if fault else 0


if __name__ == "__main__":
    sys.exit(main())
