"""Uses planned tables of pypaimon in every way that is offered, in an environment that has it.

``python pypaimon_uses.py WAREHOUSE URL`` ends with an error where one of them is not as it should be.
"""

import pickle
import sys
import warnings
from typing import Any

from pypaimon import CatalogFactory
from pypaimon.table.file_store_table import FileStoreTable

from paimon_index.pypaimon import UnplannedWarning, planned


def names(table: Any, wanted: Any) -> list[str]:
    splits = table.new_read_builder().with_filter(wanted).new_scan().plan().splits()
    return sorted(file.file_name for split in splits for file in split.files)


def rows(table: Any, wanted: Any) -> Any:
    builder = table.new_read_builder().with_filter(wanted)
    return builder.new_read().to_arrow(builder.new_scan().plan().splits())


def left(table: Any, wanted: Any, url: str) -> str:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnplannedWarning)
        assert planned(table, wanted, url) is table
    return str(caught[0].message)


def refusal(table: Any, added: Any) -> str:
    """Why nothing is written to a table; pypaimon wraps errors."""
    try:
        write = table.new_batch_write_builder().new_write()
        write.write_arrow(added)
        write.prepare_commit()
    except Exception as error:  # noqa: BLE001 - of any kind
        return f"{error!r} {error.__cause__!r}"
    return "written"


def main(warehouse: str, url: str) -> None:
    warnings.simplefilter("error", UnplannedWarning)
    catalog = CatalogFactory.create({"warehouse": warehouse})
    table = catalog.get_table("demo.sessions")
    wanted = table.new_read_builder().new_predicate_builder().equal("session_no", "ocean_00394")
    expected = rows(table, wanted)
    assert expected.num_rows == 1

    pruned = planned(table, wanted, url, timeout_seconds=60)
    assert len(names(pruned, wanted)) == 1 < len(names(table, wanted))
    assert rows(pruned, wanted).equals(expected)

    # Ray's and Daft's tasks get the table and the splits, and plan nothing.
    builder = pruned.new_read_builder().with_filter(wanted)
    splits = pickle.dumps(builder.new_scan().plan().splits())
    reader = pickle.loads(pickle.dumps(pruned)).new_read_builder().with_filter(wanted).new_read()  # noqa: S301 - ours
    assert reader.to_arrow(pickle.loads(splits)).equals(expected)  # noqa: S301 - ours

    # A writer would take the files that are left out for missing.
    refused = refusal(pruned, expected)
    assert "only read" in refused, refused

    # The native planner knows no files in memory.
    for option in ("scan.native-plan.enabled", "read.native.enabled"):
        native = planned(table.copy({option: "true"}), wanted, url, timeout_seconds=60)
        assert names(native, wanted) == names(pruned, wanted)
        assert rows(native, wanted).equals(expected)

    cached = CatalogFactory.create({"warehouse": warehouse, "local-cache.enabled": "true"}).get_table(
        "demo.sessions"
    )
    assert names(planned(cached, wanted, url, timeout_seconds=60), wanted) == names(pruned, wanted)
    # Below the warehouse, where no name of a table leads.
    for place in (table.table_path, f"file:{warehouse}/lake/2024/sessions"):
        at_place = FileStoreTable.from_path(place)
        assert names(planned(at_place, wanted, url, timeout_seconds=60), wanted) == names(pruned, wanted)

    assert "scan.snapshot-id" in left(table.copy({"scan.snapshot-id": "1"}), wanted, url)
    assert "scan.timestamp-millis" in left(
        table.copy({"scan.timestamp-millis": "99999999999999"}), wanted, url
    )
    assert "is in force" in left(pruned, wanted, url)


if __name__ == "__main__":
    main(*sys.argv[1:])
