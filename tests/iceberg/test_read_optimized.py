"""``table$ro``: the rows of the top level alone, as the engine's system table of this name has them."""

import itertools
import json
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.rest import RestCatalog

from app.api.http.strict_json import write_json
from app.errors import NotFoundError, SnapshotExpiredError, UnsupportedFormatError
from app.iceberg.catalog import IcebergCatalog
from app.iceberg.plan_tokens import PlanQuestion, PlanToken
from app.options.table_options import TableOptions
from app.planning.request.limits import Limits
from app.planning.version import version_files
from app.storage.disk.disk_tier import DiskTier
from app.table.manifests.manifest_entry import ManifestEntry, RowStatistics
from app.types import DataField, parse_type
from app.types.binary_row.row import serialize_row
from tests.examples import examples
from tests.golden_cases import GoldenWarehouse, expected
from tests.iceberg.meaning import Client, takes
from tests.iceberg.rows import expected_rows, live_rows, rows_of
from tests.iceberg.strategies import expressions, written
from tests.tables import MadeTable, entry, golden_ref, open_service, statistics

MERGING: Final = ("pk_aggregation", "pk_merge", "pk_partial_update")
ID: Final = DataField(0, "id", parse_type("INT NOT NULL"))
SCORE: Final = DataField(1, "score", parse_type("INT"))
TOP: Final = 3
OPTIONS: Final = {"bucket": "2", "num-levels": str(TOP + 1)}
WITH_VECTORS: Final = {**OPTIONS, "deletion-vectors.enabled": "true", "deletion-vectors.bitmap64": "true"}


def top_rows(name: str, version: Mapping[str, Any]) -> dict[str, list[int]]:
    """Return the positions of the live rows in each file of the top level."""
    level = TableOptions(expected(name)["options"]).top_level
    levels = {each["file"]: each["level"] for each in version["files"]}
    return {file: rows for file, rows in live_rows(version).items() if levels[file] == level}


@pytest.mark.parametrize("name", [*MERGING, "pk_first_row"])
def test_every_version_has_the_rows_of_its_top_level(
    golden: GoldenWarehouse, pyiceberg: RestCatalog, name: str
) -> None:
    table = pyiceberg.load_table(f"golden.{name}$ro")
    for version in expected(name)["versions"]:
        chosen = top_rows(name, version)
        scan = table.scan(snapshot_id=version["at"]["snapshot_id"])
        ids = [field.field_id for field in scan.projection().fields]

        assert chosen
        assert rows_of(scan.to_arrow()) == expected_rows(golden, version, chosen, ids), version["at"]


def plan(client: httpx.Client, name: str) -> Any:
    answer = client.post(f"main/namespaces/golden/tables/{name}/plan", json={})
    assert answer.status_code == 200, answer.text
    return answer.json()["file-scan-tasks"]


def test_deletion_vectors_of_the_top_level_are_applied(iceberg: httpx.Client) -> None:
    version = next(each for each in expected("pk_dv")["versions"] if not any(each["at"].values()))
    deleted = {each["file"]: each["deletion"] for each in version["files"]}

    tasks = plan(iceberg, "pk_dv$ro")

    found = {task["data-file"]["file-path"].rpartition("/")[2]: task for task in tasks}
    rows = top_rows("pk_dv", version)
    assert found.keys() == {file for file, live in rows.items() if live} < live_rows(version).keys()
    for file, task in found.items():
        assert ("delete-file-references" in task) is (deleted[file] is not None)
    refused = iceberg.post("main/namespaces/golden/tables/evolve_pk_dv$ro/plan", json={})
    assert (refused.status_code, "32 bits" in refused.text) == (406, True)


def test_other_tables_are_read_as_they_are(iceberg: httpx.Client) -> None:
    assert plan(iceberg, "append_sidecar$ro") == plan(iceberg, "append_sidecar") != []
    properties = load(iceberg, "append_sidecar$ro")["properties"]
    assert properties["paimon.read-optimized.rows-left-out"] == "0"
    branch = expected("versions")["branches"][0]
    assert iceberg.head(f"main/namespaces/golden/tables/versions$branch_{branch}$ro").status_code == 204
    assert iceberg.head("main/namespaces/golden/tables/versions$branch_nothing$ro").status_code == 404


def load(client: httpx.Client, name: str) -> Any:
    return client.get(f"main/namespaces/golden/tables/{name}").json()["metadata"]


def test_a_table_and_what_was_made_of_it_are_two_tables(iceberg: httpx.Client) -> None:
    assert load(iceberg, "pk_first_row")["table-uuid"] != load(iceberg, "pk_first_row$ro")["table-uuid"]


def test_who_knows_one_does_not_know_the_other(iceberg: httpx.Client) -> None:
    tables = f"{iceberg.base_url}main/namespaces/golden/tables"
    for mine, other in itertools.permutations(("pk_first_row", "pk_first_row$ro")):
        etag = iceberg.get(f"{tables}/{mine}").headers["etag"]
        assert iceberg.get(f"{tables}/{mine}", headers={"If-None-Match": etag}).status_code == 304
        assert iceberg.get(f"{tables}/{other}", headers={"If-None-Match": etag}).status_code == 200


def test_a_plan_of_one_is_none_of_the_other(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID, SCORE], primary_key=[ID], options=WITH_VECTORS)
    table.commit([written_file("high", [(1, 1)], TOP), written_file("low", [(2, 2)], 1)])

    with closing(open_service(tmp_path)) as service:
        catalog = IcebergCatalog(service, Limits(), 60_000)
        for mine, other in itertools.permutations((golden_ref("made"), golden_ref("made$ro"))):
            plan_id: Any = catalog.plan(mine, PlanQuestion())["plan-id"]
            for fetch in (catalog.fetch_plan, catalog.fetch_tasks):
                with pytest.raises(NotFoundError, match="no such plan of this table"):
                    fetch(other, plan_id)
                with pytest.raises(SnapshotExpiredError, match="plan again"):
                    fetch(other, PlanToken.read(plan_id, mine).write(other))


@pytest.mark.parametrize("order", [("made", "made$ro"), ("made$ro", "made")])
def test_caches_in_memory_and_on_the_disk_tell_both_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, order: Sequence[str]
) -> None:
    monkeypatch.setattr(version_files, "LEAST_FILES", 0)
    table = MadeTable.make(tmp_path / "tables", [ID, SCORE], primary_key=[ID], options=WITH_VECTORS)
    made: list[ManifestEntry] = []
    for number in range(3):
        levels = {f"{number}-{level}": level for level in (0, 1, TOP)}
        made += [written_file(name, [(level, number)], level) for name, level in levels.items()]
        table.commit(made)
        above = {each.file.file_name for each in made if each.file.level}
        top = {each.file.file_name for each in made if each.file.level == TOP}

        with closing(open_service(tmp_path / "tables", disk=DiskTier(tmp_path / "disk", 1 << 30))) as service:
            catalog = IcebergCatalog(service, Limits(), 60_000)
            for name in (*order, *order):
                answer = catalog.plan(golden_ref(name), PlanQuestion())
                assert files_of(answer) == (top if name.endswith("$ro") else above)


def test_who_is_refused_is_told_of_it(iceberg: httpx.Client) -> None:
    answer = iceberg.post("main/namespaces/golden/tables/pk_merge/plan", json={})

    assert answer.status_code == 406
    assert "add $ro to its name" in answer.json()["error"]["message"]


def written_file(
    name: str, rows: Sequence[tuple[int, int | None]], level: int, bucket: int = 0, **changes: Any
) -> ManifestEntry:
    """Return a file of these keys and scores."""
    keys = [key for key, _ in rows]
    low, high = (serialize_row([end(keys)], [ID.type]) for end in (min, max))
    return entry(
        bucket=bucket,
        file_name=f"{name}.parquet",
        row_count=len(rows),
        level=level,
        min_key=low,
        max_key=high,
        key_statistics=RowStatistics(low, high, (0,)),
        **statistics({ID: keys, SCORE: [score for _, score in rows]}),
        **changes,
    )


@pytest.mark.parametrize(
    ("files", "age"),
    [
        ([("a", TOP, 0, 1_000)], {"rows-left-out": "0"}),
        (
            [("a", TOP, 0, 1_000), ("b", TOP, 0, 2_000), ("c", TOP, 1, 1_500), ("d", 0, 0, 9_000)],
            {"rows-left-out": "2", "compacted-at": "1970-01-01T00:00:02.000"},
        ),
        (
            [("a", TOP, 0, 2_000), ("b", 1, 0, 9_000), ("c", TOP, 1, 1_500), ("d", 0, 1, 9_000)],
            {"rows-left-out": "4", "compacted-at": "1970-01-01T00:00:01.500"},
        ),
        ([("a", TOP, 0, 2_000), ("b", 0, 1, 9_000)], {"rows-left-out": "2", "compacted-at": "never"}),
        ([("a", TOP, 0, None), ("b", 0, 0, 9_000)], {"rows-left-out": "2"}),
    ],
)
def test_the_properties_say_how_old_it_is(
    tmp_path: Path, files: Sequence[tuple[str, int, int, int | None]], age: Mapping[str, str]
) -> None:
    table = MadeTable.make(tmp_path, [ID, SCORE], primary_key=[ID], options=OPTIONS)
    rows = [(1, 1), (2, 2)]
    table.commit(
        [
            written_file(name, rows, level, bucket, creation_time_millis=time)
            for name, level, bucket, time in files
        ]
    )
    service = open_service(tmp_path)
    metadata: Any = IcebergCatalog(service, Limits(), 60_000).load_table(
        golden_ref("made$ro"), referenced_only=False
    )
    service.close()

    prefix = "paimon.read-optimized."
    assert {
        name.removeprefix(prefix): value
        for name, value in metadata["properties"].items()
        if name.startswith(prefix)
    } == age


def test_the_newest_options_tell_the_top_level_of_older_snapshots_too(tmp_path: Path) -> None:
    table = MadeTable.make(tmp_path, [ID, SCORE], primary_key=[ID], options=OPTIONS)
    table.commit([written_file("high", [(1, 1)], TOP), written_file("low", [(2, 2)], 1)])
    schema = json.loads((table.directory / "schema" / "schema-0").read_text())
    schema |= {"id": 1, "options": {"bucket": "2", "num-levels": "2"}}
    (table.directory / "schema" / "schema-1").write_text(json.dumps(schema))

    for question in (PlanQuestion(), PlanQuestion(1), PlanQuestion(1, use_snapshot_schema=True)):
        assert plan_of_made(tmp_path, question) == {"low.parquet"}


VALUES: Final = {"id": [0, 1, 5, 9, 20, 31], "score": [-1, 0, 1, 2, 3]}


@st.composite
def tables(draw: st.DrawFn) -> list[tuple[ManifestEntry, list[dict[str, Any]]]]:
    """Files with their rows; those of one level above 0 of a bucket have keys of their own."""
    found = []
    for bucket, level in itertools.product((0, 1), range(TOP + 2)):
        keys = sorted(draw(st.sets(st.integers(0, 30), max_size=8)))
        cut = draw(st.integers(0, len(keys)))
        for part in (keys[:cut], keys[cut:]):
            if part:
                rows = [(key, draw(st.none() | st.integers(-1, 3))) for key in part]
                deletes = draw(st.sampled_from([None, 0, 0, 0, 1]))
                name = f"data-{bucket}-{level}-{part[0]}"
                file = written_file(name, rows, level, bucket, delete_row_count=deletes)
                found.append((file, [{"id": key, "score": score} for key, score in rows]))
    return found


@given(table=tables(), data=st.data())
@examples(100)
def test_plans_keep_what_the_top_level_has_and_nothing_else(
    table: list[tuple[ManifestEntry, list[dict[str, Any]]]], data: st.DataObject
) -> None:
    wanted = data.draw(expressions(VALUES))
    question = json.dumps(
        data.draw(st.composite(lambda draw: written(wanted, draw, {"id": 0, "score": 1}))())
    )
    top = {entry.file.file_name: (entry, rows) for entry, rows in table if entry.file.level == TOP}
    needed = {
        name
        for name, (_, rows) in top.items()
        if any(takes(client, wanted, row) for client in Client for row in rows)
    }

    with tempfile.TemporaryDirectory(prefix="paimon-index-ro-") as directory:
        made = MadeTable.make(Path(directory), [ID, SCORE], primary_key=[ID], options=OPTIONS)
        made.commit([entry for entry, _ in table])
        planned = plan_of_made(Path(directory), PlanQuestion(filter=question))

    has_deletes = {name for name, (entry, _) in top.items() if entry.file.delete_row_count}
    if planned is None:
        assert has_deletes
    else:
        assert needed <= planned <= top.keys() - has_deletes


def plan_of_made(root: Path, question: PlanQuestion) -> set[str] | None:
    """Return the files that a plan of ``made$ro`` keeps; None if it is refused since some of them merge."""
    service = open_service(root)
    try:
        answer = IcebergCatalog(service, Limits(), 60_000).plan(golden_ref("made$ro"), question)
    except UnsupportedFormatError as refusal:
        if "rows have to be merged" not in str(refusal):
            raise
        return None
    finally:
        service.close()
    return files_of(answer)


def files_of(answer: Mapping[str, Any]) -> set[str]:
    tasks = json.loads(write_json(answer))["file-scan-tasks"]
    return {each["data-file"]["file-path"].rpartition("/")[2] for each in tasks}
