"""Reads golden tables with pypaimon and with ``planned``, in an environment that has pypaimon.

``python pypaimon_process.py WAREHOUSE URL ODD`` reads from standard input the names of tables, with
predicates in the form that the engine writes; to each table it adds ``ODD`` others with literals that the two
could read in different ways. A line for each table tells how many reads were compared, what became of them,
and which have other rows. By its own global indexes pypaimon would leave out rows that none covers: these are
not asked.
"""

import datetime as dt
import json
import random
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pypaimon import CatalogFactory

from paimon_index.pypaimon import UnplannedWarning, planned, planning
from tests.client.literals import OTHERS, VALUES

_METHODS = {"IN": "is_in", "NOT_IN": "is_not_in", "STARTS_WITH": "startswith", "ENDS_WITH": "endswith"}
"""Those of pypaimon's builder that are not called as the engine's functions are."""


def value(written: Any, type_text: str) -> Any:
    if not isinstance(written, str):
        return written
    match type_text.removesuffix(" NOT NULL").partition("(")[0]:
        case "FLOAT" | "DOUBLE":
            return float(written)
        case "DECIMAL":
            return Decimal(written)
        case "DATE":
            return dt.date.fromisoformat(written)
        case "TIME":
            return dt.time.fromisoformat(written)
        case "TIMESTAMP":
            clock = written.removesuffix("Z")
            # Nanoseconds are more than Python's type has.
            read = dt.datetime.fromisoformat(clock[:26].ljust(26, "0") if "." in clock else clock)
            return read.replace(tzinfo=dt.UTC) if "LOCAL" in type_text else read
        case "BYTES" | "BINARY" | "VARBINARY":
            return bytes.fromhex(written)
    return written


def predicate(builder: Any, written: dict[str, Any]) -> Any:
    function = written["function"]
    if written["kind"] == "COMPOUND":
        join = builder.and_predicates if function == "AND" else builder.or_predicates
        return join([predicate(builder, child) for child in written["children"]])
    column = written["transform"]["fieldRef"]
    literals = [value(each, column["type"]) for each in written["literals"] or []]
    make = getattr(builder, _METHODS.get(function, function.lower()))
    return make(column["name"], *([literals] if function in ("IN", "NOT_IN") else literals))


def odd_predicates(table: Any, rows: Any, chance: random.Random, count: int) -> Iterator[Any]:
    """Yield tests of columns by some of their values, and by literals that both could misread."""
    builder = table.new_read_builder().new_predicate_builder()
    for _ in range(count):
        field = chance.choice(table.fields)
        values = [each for each in rows.column(field.name).to_pylist() if each is not None] or [None]
        near = [
            each
            for type_text, listed in VALUES.items()
            if type_text[:4] == str(field.type)[:4]
            for each in listed
        ]
        literals = [*chance.sample(values, min(2, len(values))), *near, chance.choice(OTHERS), None]
        one, other = chance.choice(literals), chance.choice(literals)
        yield chance.choice(
            [
                *(getattr(builder, name)(field.name, one) for name in ("equal", "not_equal", "less_than")),
                *(
                    getattr(builder, name)(field.name, one)
                    for name in ("greater_or_equal", "like", "startswith")
                ),
                builder.is_in(field.name, [one, other]),
                builder.is_not_in(field.name, [one, other]),
                builder.between(field.name, one, other),
                builder.not_between(field.name, one, other),
                builder.or_predicates([builder.equal(field.name, one), builder.equal(field.name, other)]),
                builder.and_predicates(
                    [builder.equal(field.name, one), builder.not_equal(field.name, other)]
                ),
            ]
        )


def read(table: Any, wanted: Any) -> tuple[int, int, Any]:
    """Count files and rows that are read, with the matching rows; an exception if pypaimon raises one."""
    builder = table.new_read_builder().with_filter(wanted)
    try:
        splits = builder.new_scan().plan().splits()
        counts = sum(len(split.files) for split in splits), sum(split.row_count for split in splits)
        return *counts, builder.new_read().to_arrow(splits)
    except Exception as error:  # noqa: BLE001 - pypaimon's
        return 0, 0, error


def compare(table: Any, wanted: Any, url: str) -> tuple[str, bool]:
    """Return what became of a read with the service, and whether it has the same rows, in any order."""
    files, row_count, rows = read(table.copy({"global-index.enabled": "false"}), wanted)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UnplannedWarning)
        of_plan = planned(table, wanted, url, timeout_seconds=60)
    if of_plan is table:
        return "unplanned" if caught else "empty", True
    kept, kept_rows, found = read(of_plan, wanted)
    if isinstance(rows, Exception):
        # The table has files that pypaimon cannot compare with the literal; those of the plan may be others.
        return "failed", True
    is_same = rows.equals(found) or (
        not isinstance(found, Exception)
        and Counter(map(repr, rows.to_pylist())) == Counter(map(repr, found.to_pylist()))
    )
    outcome = "fewer files" if kept < files else "fewer rows" if kept_rows < row_count else "planned"
    return outcome, is_same and kept <= files


def main(warehouse: str, url: str, odd: str) -> None:
    # So that each answer is read.
    vars(planning)["_MOST_SHARE"] = 1.0
    catalog = CatalogFactory.create({"warehouse": warehouse})
    for name, written in json.load(sys.stdin).items():
        table = catalog.get_table(name)
        rows = read(table, None)[-1]
        counts, other_rows = Counter[str](), []
        if isinstance(rows, Exception):
            counts["unread"] += 1
        else:
            builder = table.new_read_builder().new_predicate_builder()
            golden = [predicate(builder, each) for each in written]
            others = odd_predicates(table, rows, random.Random(name), int(odd))  # noqa: S311 - no secret
            for wanted in [*golden, *others]:
                outcome, is_same = compare(table, wanted, url)
                counts[outcome] += 1
                other_rows += [] if is_same else [repr(wanted)[:300]]
        sys.stdout.write(json.dumps({"table": name, "counts": counts, "other_rows": other_rows}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
