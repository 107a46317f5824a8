"""Draws tables and what happens to them: several writers by turns, options and columns that change.

Nothing here looks at a table. What a writer refuses is left out, so a history without some of its steps is a
history, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

from tests.referee.literals import TYPES, changes_of_clocks, value
from tests.referee.processes import ENGINES, EVOLUTION, PYTHONS, READER

Step: TypeAlias = "dict[str, Any]"
"""What one writer is asked, by ``writer``."""
Options: TypeAlias = "Sequence[tuple[str, Sequence[str]]]"

_OFTEN: Final = (
    ("deletion-vectors.enabled", ("true", "false")),
    ("deletion-vectors.enabled", ("true", "false")),
    ("deletion-vectors.merge-on-read", ("true", "false")),
    ("file.format", ("parquet", "orc", "avro")),
    ("metadata.stats-mode", ("none", "counts", "full", "truncate(4)", "truncate(16)")),
    ("manifest.format", ("avro", "orc", "parquet")),
    ("ignore-delete", ("true", "false")),
    ("bucket", ("1", "2", "3")),
    ("sequence.field", ("c0", "c1")),
)
"""Options that decide what readers see, or what files tell, beside all others."""
_EVOLVING: Final = {
    "row-tracking.enabled": "true",
    "data-evolution.enabled": "true",
    "deletion-vectors.enabled": "false",
}
_OF_INDEXES: Final = (
    ("global-index.column-update-action", ("THROW_ERROR", "DROP_PARTITION_INDEX", "IGNORE", "ignore")),
    ("global-index.enabled", ("true", "false")),
    ("global-index.search-mode", ("fast", "full", "detail")),
    ("scalar-index.search-mode", ("fast", "full", "detail")),
    ("btree-index.block-size", ("64 b", "64 kb")),
    ("btree-index.compression", ("none", "zstd", "lz4")),
    ("btree-index.records-per-range", ("4", "1000")),
    ("sorted-index.records-per-range", ("4", "1000")),
)
"""Options that decide how global indexes are built, kept while columns are updated, and asked."""
_WIDER: Final = {
    "TINYINT": ("SMALLINT", "INT", "STRING", "DOUBLE"),
    "SMALLINT": ("INT", "BIGINT", "DECIMAL(38, 10)"),
    "INT": ("BIGINT", "STRING", "DOUBLE", "DECIMAL(38, 10)"),
    "BIGINT": ("STRING", "DECIMAL(38, 10)", "INT"),
    "FLOAT": ("DOUBLE", "STRING"),
    "DECIMAL(5, 2)": ("DECIMAL(38, 10)", "DECIMAL(18, 3)", "STRING", "DOUBLE"),
    "DATE": ("TIMESTAMP(3)", "STRING"),
    "VARCHAR(5)": ("STRING",),
    "TIMESTAMP(3)": ("TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "STRING", "DATE"),
    "TIMESTAMP(0)": ("TIMESTAMP(6)", "TIMESTAMP(9)"),
}
_KEYS: Final = ("INT", "BIGINT", "STRING", "DATE", "SMALLINT")
_INDEXED: Final = (*_KEYS, "TINYINT", "TIMESTAMP(3)", "TIMESTAMP(6)", "VARCHAR(5)")
_ZONES: Final = (
    *("America/New_York", "America/Sao_Paulo", "America/Noronha", "America/Recife", "America/Rainy_River"),
    *(
        "America/St_Johns",
        "America/Caracas",
        "America/Argentina/Tucuman",
        "Antarctica/Troll",
        "Australia/Lord_Howe",
    ),
    *("Asia/Singapore", "Asia/Kuala_Lumpur", "Asia/Gaza", "Asia/Tehran", "Asia/Pyongyang", "Asia/Kolkata"),
    *("Atlantic/Azores", "Africa/Casablanca", "Africa/El_Aaiun", "Europe/London", "Europe/Dublin"),
    *("Europe/Kiev", "Europe/Simferopol", "Europe/Volgograd", "Pacific/Apia", "Pacific/Kiritimati"),
)
_UNAWARE: Final = ("unaware", "evolving")
"""Kinds of tables that have no buckets."""
_NAMES: Final = ("c", "c", "c", "C", "é ", "a.", "select ")


@dataclass(frozen=True)
class History:
    """A table and its steps.

    Attributes:
        zone: one that readers may have, near whose changes of clocks some values are.
    """

    create: Step
    zone: str = "UTC"
    steps: list[Step] = field(default_factory=list)

    @property
    def engine_only(self) -> bool:
        """Whether the Java engine alone writes data files."""
        return all(step["writer"] in (*ENGINES, EVOLUTION) for step in self.steps)

    def without(self, at: int) -> History:
        return replace(self, steps=self.steps[:at] + self.steps[at + 1 :])


class Drawing:
    """Of one history, with the columns as they are at some step."""

    def __init__(self, rng: Random, options: Options) -> None:
        self._rng = rng
        self._options = options
        self._names = 0
        self._columns: dict[str, str] = {}
        self._zone = rng.choice(_ZONES)
        self._clocks = changes_of_clocks(rng, ZoneInfo(self._zone))
        self._branches: list[str] = []
        self._tags = 0

    def history(self) -> History:
        rng = self._rng
        for _ in range(rng.randint(1, 4)):
            self._columns[self._new_name()] = rng.choice(TYPES)
        keys, partitions, options = [], [], self._some_options()
        kind = rng.choice(
            ("unaware", "unaware", "bucketed", "keyed", "keyed", "keyed", "dynamic", *("evolving",) * 4)
        )
        if rng.random() < 0.3:
            partitions.append("p")
            self._columns["p"] = rng.choice((*_KEYS, *TYPES))
        if kind in ("keyed", "dynamic"):
            keys = ["k", *partitions]
            self._columns = {"k": f"{rng.choice(_KEYS)} NOT NULL", **self._columns}
            options["merge-engine"] = rng.choice(
                ("deduplicate", "deduplicate", "partial-update", "aggregation", "first-row")
            )
            options["ignore-delete"] = "false" if options["merge-engine"] == "deduplicate" else "true"
            if partitions:
                self._columns["p"] += " NOT NULL"
        elif rng.random() < 0.4:
            options["deletion-vectors.enabled"] = "true"
        if kind == "bucketed":
            options["bucket-key"] = next(iter(self._columns))
        options["bucket"] = rng.choice(("1", "2", "3")) if kind in ("bucketed", "keyed") else "-1"
        options |= self._tracking(kind)
        create = {
            "columns": [[name, written] for name, written in self._columns.items()],
            "keys": keys,
            "partitions": partitions,
            "options": options,
        }
        history = History({"do": "create", "writer": rng.choice(ENGINES), **create}, self._zone)
        writers = list(ENGINES)
        # pypaimon puts keys where the engine does not look for them.
        if rng.random() < 0.6 and options["bucket"] in (("-1",) if kind in _UNAWARE else ("1",)):
            writers += [*PYTHONS, READER]
        history.steps.extend(self._write({"do": "write"}, writers, kind) for _ in range(2))
        history.steps.extend(self._step(writers, kind) for _ in range(rng.randint(2, 10)))
        return history

    def _new_name(self) -> str:
        self._names += 1
        return f"{self._rng.choice(_NAMES)}{self._names - 1}"

    def _tracking(self, kind: str) -> dict[str, str]:
        """Options of tables whose rows have ids."""
        rng = self._rng
        if kind == "evolving":
            return _EVOLVING | {key: rng.choice(values) for key, values in _OF_INDEXES if rng.random() < 0.3}
        if kind != "unaware" or rng.random() < 0.75:
            return {}
        evolves = {"data-evolution.enabled": "true"} if rng.random() < 0.4 else {}
        return {"row-tracking.enabled": "true", **evolves}

    def _some_options(self) -> dict[str, str]:
        # Vectors may be switched off and on.
        found = {"deletion-vectors.modifiable": "true"} if self._rng.random() < 0.7 else {}
        for key, values in _OFTEN:
            if self._rng.random() < 0.25 and key != "sequence.field":
                found[key] = self._rng.choice(values)
        fitting = [name for name, written in self._columns.items() if written in _INDEXED]
        for kind in ("bloom-filter", "bitmap", "bsi", "range-bitmap"):
            if fitting and self._rng.random() < 0.3:
                found[f"file-index.{kind}.columns"] = self._rng.choice(fitting)
        return found

    def _step(self, writers: Sequence[str], kind: str) -> Step:  # noqa: C901 - one table
        rng = self._rng
        if kind == "evolving" and rng.random() < 0.7:
            return self._evolution(writers)
        what = rng.choice(
            ("write",) * 8
            + ("alter",) * 8
            + (
                "compact",
                "merge",
                "delete",
                "delete",
                "tag",
                "branch",
                "rollback",
                "job",
                "forward",
                "times",
                "expire",
            )
        )
        branch = rng.choice((None, *self._branches)) if self._branches else None
        step: Step = {"do": what, "writer": rng.choice(ENGINES)}
        if branch is not None:
            step["branch"] = branch
        match what:
            case "write":
                return self._write(step, writers if branch is None else ENGINES, kind)
            case "alter":
                return step | self._alteration()
            case "delete":
                return step | {"first": rng.randint(0, 2), "step": rng.randint(1, 4)}
            case "tag":
                self._tags += 1
                return step | {"tag": f"tag{self._tags - 1}"}
            case "branch":
                self._branches.append(f"b{len(self._branches)}")
                named = {"do": "branch", "writer": READER, "name": self._branches[-1]}
                return named if rng.random() < 0.3 or not self._tags else named | {"tag": self._some_tag()}
            case "forward":
                return {**step, "name": rng.choice(self._branches or ["b0"])}
            case "rollback":
                if self._tags and rng.random() < 0.5:
                    return step | {"tag": self._some_tag()}
                return step | {"snapshot": rng.randint(1, 5)}
            case "expire":
                return step | {"keep": rng.randint(1, 4)}
            case "times":
                return {
                    "do": "times",
                    "writer": "clocks",
                    "millis": rng.choices(range(1_000, 9_000, 500), k=12),
                }
            case "job":
                return {"do": "job", "writer": "jobs", "number": rng.randrange(1 << 16)}
        return step

    def _evolution(self, writers: Sequence[str]) -> Step:
        """Return what happens to tables with data evolution alone, whoever writes them."""
        rng = self._rng
        what = rng.choice(("index",) * 4 + ("update",) * 4 + ("compact", "compact", "set", "set", "unindex"))
        if what == "set":
            key, choices = rng.choice(_OF_INDEXES[:4])
            change = {"change": rng.choice(("set", "set", "unset")), "key": key, "value": rng.choice(choices)}
            return {"do": "alter", "writer": READER, **change}
        others = [] if what == "compact" else [each for each in writers if each in PYTHONS]
        # Columns may all have been dropped but the partition's.
        column = rng.choice([name for name in self._columns if name != "p"] or [*self._columns])
        step: Step = {"do": what, "writer": rng.choice((EVOLUTION, *others)), "column": column}
        if what == "update":
            values = [value(rng, self._columns[column], self._clocks) for _ in range(3)]
            # Files have their place, rows their ids.
            step |= {"at": rng.randrange(8), "rows": sorted(rng.sample(range(12), 3)), "values": values}
        return step | {"kind": rng.choice(("btree", "btree", "bitmap"))}

    def _some_tag(self) -> str:
        return f"tag{self._rng.randrange(self._tags)}"

    def _write(self, step: Step, writers: Sequence[str], kind: str) -> Step:
        rng = self._rng
        rows = []
        few = {
            name: [value(rng, written, self._clocks) for _ in range(3)]
            for name, written in self._columns.items()
        }
        for _ in range(rng.choice((1, 3, 6, 12))):
            row = {name: text for name, values in few.items() if (text := rng.choice(values)) is not None}
            if kind in ("keyed", "dynamic") and rng.random() < 0.15:
                row["__kind"] = rng.choice(("-D", "-D", "-U", "+U"))
            rows.append(row)
        step = {**step, "writer": rng.choice(writers), "rows": rows}
        if rng.random() < 0.06:
            step["overwrite"] = True
        if kind in _UNAWARE and rng.random() < 0.3:
            if kind == "unaware" and rng.random() < 0.5:
                for at, row in enumerate(rows):
                    row |= {"_ROW_ID": str(at), "_SEQUENCE_NUMBER": "1"}
                step["row_ids"] = True
            else:
                step["only"] = rng.sample(list(self._columns), rng.randint(1, len(self._columns)))
        return step

    def _alteration(self) -> Step:  # noqa: C901 - one table
        rng = self._rng
        columns = [name for name in self._columns if name not in ("k", "p")]
        column = rng.choice(columns or ["c0"])
        match rng.choice(
            ("set",) * 8 + ("unset", "add", "add", "drop", "rename", "retype", "first", "default", "nullable")
        ):
            case "add":
                name = rng.choice((self._new_name(), "c0", "c1"))
                self._columns.setdefault(name, rng.choice(TYPES))
                return {
                    "change": "add",
                    "column": name,
                    "type": self._columns[name],
                    "first": rng.random() < 0.3,
                }
            case "drop":
                if len(self._columns) > 1:
                    self._columns.pop(column, None)
                return {"change": "drop", "column": column}
            case "rename":
                name = self._new_name()
                if column in self._columns:
                    self._columns[name] = self._columns.pop(column)
                return {"change": "rename", "column": column, "to": name}
            case "retype":
                self._columns[column] = rng.choice(_WIDER.get(self._columns.get(column, ""), TYPES))
                return {"change": "retype", "column": column, "type": self._columns[column]}
            case "default":
                return {"change": "default", "column": column, "value": self._some_value(column)}
            case "nullable":
                return {"change": "nullable", "column": column, "value": rng.random() < 0.7}
            case "first":
                return {"change": "first", "column": column}
            case "unset":
                return {"change": "unset", "key": rng.choice(_OFTEN)[0]}
        key, values = rng.choice(_OFTEN if rng.random() < 0.5 else (*self._options, *self._of_fields(column)))
        return {"change": "set", "key": key, "value": rng.choice(values)}

    def _of_fields(self, column: str) -> Options:
        names = {
            "default-value": [self._some_value(column)],
            "aggregate-function": ["sum", "max", "last_value", "first_non_null_value"],
            "ignore-retract": ["true"],
        }
        indexes = [
            (f"file-index.{kind}.columns", [column]) for kind in ("bloom-filter", "bitmap", "range-bitmap")
        ]
        return (*((f"fields.{column}.{name}", values) for name, values in names.items()), *indexes) * 8

    def _some_value(self, column: str) -> str:
        return value(self._rng, self._columns.get(column, "INT")) or "5"


def shown(history: History) -> str:
    return "\n".join(f"  {_shown(step)}" for step in (history.create, *history.steps))


def _shown(step: Mapping[str, Any]) -> str:
    return f"{step['writer']}: " + ", ".join(f"{key} {each}" for key, each in step.items() if key != "writer")
