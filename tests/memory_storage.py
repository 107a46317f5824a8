"""Storage that is a dictionary, for tests that write a few small files."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress

from app.errors import FileMissingError


class MemoryStorage:
    """Files by path; ``reads`` lists what was read, in order."""

    is_local = True

    def __init__(self, files: dict[str, bytes] | None = None, name: str = "memory") -> None:
        self.files = dict(files or {})
        self.name = self.place = name
        self.reads: list[str] = []

    def read(self, path: str) -> bytes:
        self.reads.append(path)
        if path not in self.files:
            raise FileMissingError(f"there is no file {path}", path=path)
        return self.files[path]

    def start_of(self, path: str, count: int) -> bytes | None:
        with suppress(FileMissingError):
            return self.read(path)[:count]
        return None

    @contextmanager
    def reading(self, path: str, size: int | None, *, is_kept: bool = True) -> Iterator[bytes]:
        del size, is_kept  # nothing is kept
        yield self.read(path)

    def list_names(self, directory: str) -> list[str]:
        prefix = f"{directory}/" if directory else ""
        below = (path.removeprefix(prefix) for path in self.files if path.startswith(prefix))
        return sorted({path.partition("/")[0] for path in below})

    def exists(self, path: str) -> bool:
        return path in self.files or any(each.startswith(f"{path}/") for each in self.files)
