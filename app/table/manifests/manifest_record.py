"""The record of a manifest: what it tells of one data file that a commit added or removed.

A record is ``_VERSION int`` (2), ``_KIND int`` (0 ADD, 1 DELETE), ``_PARTITION bytes`` (a serialized row),
``_BUCKET int``, ``_TOTAL_BUCKETS int`` (of the partition at that time; -1 without buckets) and ``_FILE``:

===========================================  =======================================================
field                                        meaning
===========================================  =======================================================
_FILE_NAME string, _FILE_SIZE long           inside of its bucket directory
_ROW_COUNT long                              rows, deleted ones included
_MIN_KEY, _MAX_KEY bytes                     serialized rows of the trimmed primary key
_KEY_STATS, _VALUE_STATS                     statistics of key columns and of columns
_MIN_SEQUENCE_NUMBER, _MAX_... long          versions of keys in it
_SCHEMA_ID long                              the schema it was written with
_LEVEL int                                   of the merge tree
_EXTRA_FILES array<string>                   files beside it; one that ends in ``.index`` is its file index
_CREATION_TIME [null, long]                  milliseconds
_DELETE_ROW_COUNT [null, long]               rows that retract a key
_EMBEDDED_FILE_INDEX [null, bytes]           the complete file index, if it is small
_FILE_SOURCE [null, int]                     0 APPEND, 1 COMPACT
_VALUE_STATS_COLS [null, array<string>]      columns of _VALUE_STATS, if not all
_EXTERNAL_PATH [null, string]                where it lies, if not in its bucket directory
_FIRST_ROW_ID [null, long]                   id of its first row, if the table tracks rows
_WRITE_COLS [null, array<string>]            columns in the file, if not all
===========================================  =======================================================
"""

from __future__ import annotations

from typing import Final

from app.table.manifests.row_statistics import STATISTICS
from app.table.records.expected import ArrayOf, Nullable, RecordOf

VERSION: Final = 2
FILE_RECORD: Final = RecordOf(
    {
        "_FILE_NAME": "string",
        "_FILE_SIZE": "long",
        "_ROW_COUNT": "long",
        "_MIN_KEY": "bytes",
        "_MAX_KEY": "bytes",
        "_KEY_STATS": STATISTICS,
        "_VALUE_STATS": STATISTICS,
        "_MIN_SEQUENCE_NUMBER": "long",
        "_MAX_SEQUENCE_NUMBER": "long",
        "_SCHEMA_ID": "long",
        "_LEVEL": "int",
        "_EXTRA_FILES": ArrayOf("string"),
        "_CREATION_TIME": Nullable("long"),
        "_DELETE_ROW_COUNT": Nullable("long"),
        "_EMBEDDED_FILE_INDEX": Nullable("bytes"),
        "_FILE_SOURCE": Nullable("int"),
        "_VALUE_STATS_COLS": Nullable(ArrayOf("string")),
        "_EXTERNAL_PATH": Nullable("string"),
        "_FIRST_ROW_ID": Nullable("long"),
        "_WRITE_COLS": Nullable(ArrayOf("string")),
    }
)
RECORD: Final = RecordOf(
    {
        "_VERSION": "int",
        "_KIND": "int",
        "_PARTITION": "bytes",
        "_BUCKET": "int",
        "_TOTAL_BUCKETS": "int",
        "_FILE": FILE_RECORD,
    }
)
EMBEDDED: Final = ("_FILE", "_EMBEDDED_FILE_INDEX")
"""Names of the fields that lead to the column of embedded indexes."""
