"""Commits of new rows that were worked out from something that is no longer so."""

from dataclasses import replace
from pathlib import Path

import pytest

from app.errors import CommitConflictError
from app.table.commits import Changes, CommitKind, Expectations
from app.table.commits.changes import hash_index_names, highest_sequences
from tests.copied_tables import files_below, open_table
from tests.golden_cases import GoldenWarehouse


def test_rows_and_keys_of_others_stand_in_the_way(golden: GoldenWarehouse, tmp_path: Path) -> None:
    directory = golden.copy("dyn_bucket", tmp_path)
    opened = open_table(tmp_path, "dyn_bucket")
    entries, resolved = opened.entries(), opened.table.resolve()
    like = entries[0]
    place = (like.partition, like.bucket)
    sequences = highest_sequences(opened.table.metadata.manifests(resolved))
    names = hash_index_names(opened.table.metadata.index_entries(resolved))
    assert sequences[place] == max(
        entry.file.max_sequence_number for entry in entries if (entry.partition, entry.bucket) == place
    )
    new = replace(like, file=replace(like.file, file_name="data-new-0.parquet"))

    def commit(expected: Expectations) -> int:
        return opened.committer.commit(Changes(CommitKind.APPEND, (new,), expected=expected))

    before = files_below(directory)
    with pytest.raises(CommitConflictError, match="another commit has added some"):
        commit(Expectations({place: sequences[place] - 1}))
    with pytest.raises(CommitConflictError, match="another commit has added some"):
        commit(Expectations({place: -1}))
    with pytest.raises(CommitConflictError, match="changed the hash indexes"):
        commit(Expectations({}, {like.partition: frozenset(list(names[like.partition])[1:])}))
    with pytest.raises(CommitConflictError, match="changed the hash indexes"):
        commit(Expectations({}, {b"another partition": frozenset({"index"})}))
    assert files_below(directory) == before
    # Compaction may take the newest rows away.
    assert commit(
        Expectations({place: sequences[place] + 1, (b"new", 0): -1}, {**names, b"new": frozenset()})
    )
