"""The least of a REST catalog that the engine's client reads tables through."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

_PREFIX: Final = "/v1/c/databases/"


@dataclass(frozen=True, slots=True)
class RestTable:
    """A table that lies in a directory.

    Attributes:
        is_external: whether its directory has its snapshots; otherwise the catalog tells the latest one.
    """

    directory: Path
    is_external: bool


@dataclass(slots=True)
class RestCatalog:
    """Options that its clients are told, and tables by ``database.table``."""

    tables: dict[str, RestTable] = field(default_factory=dict)
    defaults: dict[str, str] = field(default_factory=dict)

    def answer(self, path: str) -> Mapping[str, Any] | None:
        if path == "/v1/config":
            return {"defaults": self.defaults, "overrides": {"prefix": "c"}}
        match path.removeprefix(_PREFIX).split("/"):
            case [database]:
                return {"id": database, "name": database, "location": "nowhere", "options": {}, **_AUDIT}
            case [database, "tables", name] if f"{database}.{name}" in self.tables:
                return _described(name, self.tables[f"{database}.{name}"])
            case [database, "tables", name, "snapshot"] if f"{database}.{name}" in self.tables:
                return _latest(self.tables[f"{database}.{name}"])
            case [_, "tables", _, "token"]:
                return {"token": {"fs.secret": "s"}, "expiresAtMillis": 2**53}
        return None


_AUDIT: Final = {"owner": "o", "createdAt": 0, "createdBy": "o", "updatedAt": 0, "updatedBy": "o"}


def _described(name: str, table: RestTable) -> Mapping[str, Any]:
    schema = json.loads((table.directory / "schema" / "schema-0").read_bytes())
    members = ("fields", "partitionKeys", "primaryKeys", "options", "comment")
    return {
        "id": f"id-of-{name}",
        "name": name,
        "path": f"file:{table.directory}",
        "isExternal": table.is_external,
        "schemaId": 0,
        "schema": {member: schema.get(member) for member in members},
        **_AUDIT,
    }


def _latest(table: RestTable) -> Mapping[str, Any]:
    latest = max((table.directory / "snapshot").glob("snapshot-*"), key=lambda path: int(path.name[9:]))
    totals = {"recordCount": 0, "fileSizeInBytes": 0, "fileCount": 0, "lastFileCreationTime": 0}
    return {"snapshot": {"snapshot": json.loads(latest.read_bytes()), **totals}}


@contextmanager
def serving(catalog: RestCatalog) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = catalog.answer(self.path.partition("?")[0])
            missing = {"message": "no such thing", "code": 404, "resourceType": "TABLE", "resourceName": "x"}
            body = json.dumps(missing if found is None else found).encode()
            self.send_response(404 if found is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
