"""Options of new data files."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.deletion_vectors import VectorOptions
from app.errors import CorruptMetadataError, RequestError, UnsupportedFormatError
from app.options.file_indexes import split_map_key, with_added
from app.options.reading import memory_size
from app.options.table_options import REFUSED, UNBOUNDED, AssignerOptions, DynamicBucketOptions, TableOptions
from app.options.written_files import ALL, DataFileOptions, ManifestOptions, StatisticsMode, statistics_mode
from app.planning.service import IndexService
from app.types import DataField, parse_type
from tests.environments import python_with
from tests.maven import ENGINE, maven_jar
from tests.tables import MadeTable, entry, open_service


def test_defaults_are_the_engines() -> None:
    keyed, append = (DataFileOptions.parse({}, has_key=has_key) for has_key in (True, False))
    assert (keyed.compression, keyed.compression_level, keyed.prefix) == ("zstd", 1, "data-")
    assert (keyed.target_bytes, append.target_bytes) == (128 << 20, 256 << 20)
    assert keyed.mode("any", 1000) == StatisticsMode(nulls=True, characters=16)
    assert (keyed.dense, keyed.sequence_fields, keyed.descending) == (True, (), False)


def test_modes_of_statistics() -> None:
    assert statistics_mode("o", " FULL ") == StatisticsMode(nulls=True, characters=ALL)
    assert statistics_mode("o", "counts") == StatisticsMode(nulls=True)
    assert statistics_mode("o", "none") == StatisticsMode()
    assert statistics_mode("o", "truncate(3)") == StatisticsMode(nulls=True, characters=3)


def test_columns_have_modes_of_their_own() -> None:
    options = DataFileOptions.parse(
        {
            "fields.a.b.stats-mode": "none",
            "metadata.stats-keep-first-n-columns": "2",
            "sequence.field": "x, y",
        },
        has_key=True,
    )
    assert options.mode("a.b", 0) == StatisticsMode()
    assert options.mode("c", 1).nulls
    assert not options.mode("d", 2).nulls
    assert options.sequence_fields == ("x", "y")


@pytest.mark.parametrize(
    ("option", "value", "kind"),
    [
        ("file.compression", "lzo", UnsupportedFormatError),
        ("metadata.stats-mode", "truncate", UnsupportedFormatError),
        ("target-file-size", "much", RequestError),
        ("file.compression.zstd-level", "fast", RequestError),
    ],
)
def test_what_is_wrong_is_told(option: str, value: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=option):
        DataFileOptions.parse({option: value}, has_key=True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, VectorOptions(bitmap64=False, target_bytes=2 * 2**20)),
        ({"deletion-vectors.bitmap64": "true"}, VectorOptions(bitmap64=True)),
        ({"deletion-vectors.bitmap64": " False "}, VectorOptions()),
        ({"deletion-vector.index-file.target-size": "400 b"}, VectorOptions(target_bytes=400)),
        (
            {"deletion-vector.index-file.target-size": "1MB", "bucket": "-1"},
            VectorOptions(target_bytes=2**20),
        ),
    ],
)
def test_options_of_a_table(options: dict[str, str], expected: VectorOptions) -> None:
    assert VectorOptions.parse(options) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [("deletion-vectors.bitmap64", "yes"), ("deletion-vector.index-file.target-size", "2 megabytes")],
)
def test_wrong_values_are_named(name: str, value: str) -> None:
    with pytest.raises(RequestError, match=f"{name}.*{value}"):
        VectorOptions.parse({name: value})


TARGET = "dynamic-bucket.target-row-num"
BOUND = "dynamic-bucket.max-buckets"
INITIAL = "dynamic-bucket.initial-buckets"
PARALLELISM = "dynamic-bucket.assigner-parallelism"


def test_options_are_read_by_their_table_names() -> None:
    assert DynamicBucketOptions.parse({"bucket": "-1"}) == DynamicBucketOptions(
        2_000_000, UNBOUNDED, None, None
    )
    written = {TARGET: " 1000 ", BOUND: "7", INITIAL: "3", PARALLELISM: "4"}
    assert DynamicBucketOptions.parse(written) == DynamicBucketOptions(1000, 7, 3, 4)
    assert DynamicBucketOptions.parse({BOUND: "-1"}).max_buckets == UNBOUNDED


@pytest.mark.parametrize(
    ("name", "value"),
    [
        (TARGET, "0"),
        (TARGET, "-1"),
        (TARGET, str(2**63)),
        (TARGET, "1e6"),
        (BOUND, "0"),
        (BOUND, "-2"),
        (BOUND, ""),
        (BOUND, str(2**31)),
        (INITIAL, "0"),
        (PARALLELISM, "-1"),
        (PARALLELISM, "many"),
    ],
)
def test_a_wrong_option_is_named_with_what_it_may_be(name: str, value: str) -> None:
    with pytest.raises(RequestError, match=rf"{name} must be (-1 or )?(a number|from 1 to \d+), found"):
        DynamicBucketOptions.parse({name: value})


@pytest.mark.parametrize(
    ("initial", "parallelism", "writer", "channels", "assigners"),
    [
        (None, None, 4, 4, 4),
        (3, None, 4, 4, 3),
        (9, None, 4, 4, 4),
        (None, 2, 4, 2, 2),
        (3, 2, 4, 2, 2),
        (2, 8, 4, 8, 2),
    ],
)
def test_a_partition_has_as_many_assigners_as_initial_buckets(
    initial: int | None, parallelism: int | None, writer: int, channels: int, assigners: int
) -> None:
    options = DynamicBucketOptions(50, 7, initial, parallelism)
    assert options.assigners(writer) == tuple(
        AssignerOptions(channels, assigners, number, 50, 7) for number in range(channels)
    )


def test_assigners_share_all_buckets_out() -> None:
    shares = [[*options.own_buckets()] for options in DynamicBucketOptions(max_buckets=8).assigners(3)]
    assert shares == [[0, 3, 6], [1, 4, 7], [2, 5]]
    (only,) = DynamicBucketOptions().assigners(1)
    assert only.own_buckets() == range(32767)
    # Buckets are kept in 16 bits, whatever the option says.
    assert AssignerOptions(max_buckets=100_000).highest_allowed == 32766


def test_what_is_not_set_is_as_in_the_engine() -> None:
    assert ManifestOptions.of("t", {}) == ManifestOptions("zstd", 8 << 20, 30, 16 << 20)


def test_what_is_set_counts() -> None:
    options = {
        "manifest.format": " Avro",
        "manifest.compression": "Snappy ",
        "manifest.target-file-size": "1 mb",
        "manifest.merge-min-count": "5",
        "manifest.full-compaction-threshold-size": "64kb",
    }
    assert ManifestOptions.of("t", options) == ManifestOptions("snappy", 1 << 20, 5, 64 << 10)


def test_other_formats_are_not_written() -> None:
    with pytest.raises(UnsupportedFormatError, match=r"table t has manifest\.format=orc, .* use the engine"):
        ManifestOptions.of("t", {"manifest.format": "ORC"})


def test_what_is_no_size_or_number_is_told() -> None:
    with pytest.raises(RequestError, match=r"manifest\.target-file-size must be a size"):
        ManifestOptions.of("t", {"manifest.target-file-size": "large"})
    with pytest.raises(CorruptMetadataError, match=r"manifest\.merge-min-count must be a number"):
        ManifestOptions.of("t", {"manifest.merge-min-count": "many"})


@pytest.mark.parametrize(
    ("name", "split"),
    [("m[k]", ("m", "k")), ("m[a[b]]", ("m", "a[b]")), ("m[]", ("m", "")), ("m[k", ("m[k", None))],
)
def test_map_keys_start_at_the_first_bracket(name: str, split: tuple[str, str | None]) -> None:
    assert split_map_key(name) == split


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("500", 500),
        ("500 b", 500),
        ("16kb", 16 << 10),
        (" 2 MB ", 2 << 20),
        ("3 gibibytes", 3 << 30),
        ("1t", 1 << 40),
    ],
)
def test_sizes_are_bytes(text: str, expected: int) -> None:
    assert memory_size("size", text) == expected


@pytest.mark.parametrize("text", ["", "kb", "-1", "1.5 mb", "1 megabyte", "1 kb kb", "٣ kb", "9" * 19])
def test_other_texts_are_named_with_their_option(text: str) -> None:
    with pytest.raises(RequestError, match="target-size"):
        memory_size("target-size", text)


_HERE: Final = Path(__file__).parent
_ROOT: Final = _HERE.parents[1]
_LINES: Final = (_HERE / "core_options.txt").read_text().splitlines()
_KNOWN: Final = {name: meaning.split(":")[0] for name, meaning in (line.split(" ", 1) for line in _LINES)}
_HARMLESS_VALUES: Final = {"branch": "main", "type": "TABLE", "batch-scan-mode": "none"}
_ID: Final = DataField(0, "id", parse_type("BIGINT"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[IndexService]:
    opened = open_service(tmp_path)
    yield opened
    opened.close()


@pytest.mark.engine
def test_every_option_of_the_engine_is_known() -> None:
    jar = os.environ.get("PAIMON_SPARK_CONNECTOR") or maven_jar(ENGINE)
    listed = subprocess.run(  # noqa: S603 - fixed words
        ["java", "-cp", str(jar), str(_HERE / "ListOptions.java")],  # noqa: S607 - whichever runs Spark
        check=True,
        capture_output=True,
        text=True,
    )

    keys = listed.stdout.split()
    assert "deletion-vectors.bitmap64" in keys
    assert [key for key in keys if key not in _KNOWN] == []


def test_what_is_listed_as_refused_is_refused() -> None:
    assert {name for name, meaning in _KNOWN.items() if meaning == "refused"} == REFUSED.keys()
    assert set(_KNOWN.values()) == {"honoured", "refused", "harmless"}
    # Every harmless option has its reason.
    assert [each for each in _LINES if not re.fullmatch(r"\S+ (honoured|refused|harmless: \w.+)", each)] == []


@pytest.mark.long
def test_every_option_of_pypaimon_is_known() -> None:
    program = (
        "from pypaimon.common.options.core_options import CoreOptions\n"
        "for each in vars(CoreOptions).values():\n"
        "    if type(each).__name__ == 'ConfigOption':\n"
        "        print(each.key())"
    )
    python = python_with("pypaimon-2.1.0", ("pypaimon==2.1.0", "backports.zstd"))
    listed = subprocess.run([str(python), "-c", program], check=True, capture_output=True, text=True)  # noqa: S603 - its own

    keys = listed.stdout.split()
    assert "global-index.enabled" in keys
    assert [key for key in keys if key not in _KNOWN] == []


def test_the_page_of_tables_has_every_option_that_changes_what_is_read() -> None:
    page = (_ROOT / "docs" / "tables.md").read_text()
    named = set(re.findall(r"`([a-z0-9_.-]+)(?:=[^`]*)?`", page))

    assert [name for name, meaning in _KNOWN.items() if meaning != "harmless" and name not in named] == []


def test_a_session_of_spark_is_refused_for_the_same_options() -> None:
    # The client knows nothing of the service's modules, and its own module needs pyspark.
    written = (_ROOT / "client" / "paimon_index" / "spark" / "refusals.py").read_text()
    of_session = {name for name in _KNOWN if f'        "{name}",\n' in written}

    assert of_session - REFUSED.keys() == {
        "deletion-vectors.enabled",
        "deletion-vectors.merge-on-read",
        "global-index.enabled",
        "ignore-delete",
    }
    assert REFUSED.keys() <= of_session


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_a_table_with_such_an_option_is_not_planned(tmp_path: Path, service: IndexService, name: str) -> None:
    table = MadeTable.make(tmp_path, [_ID], options={name: "7"})
    table.commit([entry()])

    with pytest.raises(UnsupportedFormatError, match=rf"table made has the option {name}=7, .* the engine"):
        table.plan(service)


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_the_engine_has_by_default_is_planned(name: str) -> None:
    default = (
        "latest-full" if name in ("scan.mode", "log.scan") else "none" if name == "stream-scan-mode" else ""
    )
    assert TableOptions({name: _HARMLESS_VALUES.get(name, default)}).refusal is None
    unsorted = {"deletion-vectors.merge-on-read": "true", "pk-clustering-override": "false"}
    assert TableOptions(unsorted).refusal is None


def test_files_that_are_not_sorted_by_key_are_not_merged() -> None:
    options = {"deletion-vectors.merge-on-read": "true", "pk-clustering-override": "true"}
    assert "pk-clustering-override and deletion-vectors.merge-on-read" in str(TableOptions(options).refusal)


@pytest.mark.parametrize(
    ("stored", "given", "columns"),
    [
        ("city, shelf", "counter", "city,shelf,counter"),
        ("city", "counter,city", "city,counter"),
        ("", "counter", "counter"),
        (None, "counter", "counter"),
        ("city", None, "city"),
        # Which is refused where options are read.
        ("city", "counter,counter", "city,counter,counter"),
    ],
)
def test_columns_of_given_indexes_stand_behind_those_of_the_table(
    stored: str | None, given: str | None, columns: str
) -> None:
    option = "file-index.bitmap.columns"
    own = {"bucket": "4"} if stored is None else {"bucket": "4", option: stored}
    found = with_added(own, {} if given is None else {option: given, "file-index.bitmap.city.version": "2"})

    assert found.pop("file-index.bitmap.city.version", "2") == "2"
    assert found == {"bucket": "4", option: columns}
