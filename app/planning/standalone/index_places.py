"""Which files of a warehouse can be index files, by where they lie and what they are called.

::

    <database>.db/<table>/[...]bucket-<n>/<data file>.index      a file index
    <database>.db/<table>/index/index-<uuid>-<n>                 deletion vectors or a hash index
    <database>.db/<table>/[...]bucket-<n>/index-<uuid>-<n>       likewise, with index-file-in-data-file-dir

Writers give these names to index files, and to nothing else. A hash index has no mark that tells it from
other bytes, so without its name any file of a warehouse could be read as one.
"""

from __future__ import annotations

import re

from app.errors import PathNotAllowedError

_TABLE = r"[^/]+\.db/[^/]+/"
_BUCKET = r"(?:[^/]+/)*bucket-(?:\d+|postpone)/"
_FILE_INDEX = re.compile(rf"{_TABLE}{_BUCKET}[^/]+\.index")
_BUCKET_INDEX = re.compile(
    rf"{_TABLE}(?:index/|{_BUCKET})index-[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}-\d+"
)

FILE_INDEX_SUFFIX = ".index"


def check_index_place(path: str) -> None:
    """Lets paths of index files pass, and no others.

    Raises:
        PathNotAllowedError: no writer has an index file there.
    """
    if not _FILE_INDEX.fullmatch(path) and not _BUCKET_INDEX.fullmatch(path):
        raise PathNotAllowedError(
            f"{path!r} is no place of an index file: expected DATABASE.db/TABLE/.../bucket-0/DATA_FILE.index "
            f"or DATABASE.db/TABLE/index/index-UUID-0",
            path=path,
        )
