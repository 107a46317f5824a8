"""Counts of golden queries: where an answer is exact it is the number of rows, else that lies within."""

import pytest

from app.aggregates.aggregation import aggregate
from app.aggregates.answers import AggregateRequest
from app.errors import PaimonIndexError, UnsupportedFormatError
from app.planning.request.limits import Limits
from app.planning.request.requests import SnapshotSelector
from app.planning.service import IndexService
from app.types.session_zone import session_zone
from tests import golden_tables
from tests.golden_cases import for_each
from tests.golden_tables import GoldenWarehouse
from tests.planning.copied_tables import golden_ref, open_service

EXACT_OFTEN = {
    "append_sidecar",
    "append_embedded",
    "append_partitioned",
    "append_dv32",
    "append_dv64",
    "all_types",
}


@pytest.fixture(scope="module")
def service(golden: GoldenWarehouse) -> IndexService:
    return open_service(golden.root, golden.allow_external(), engine_writes_only=True)


@for_each("name", golden_tables.tables())
def test_counts_hold_the_number_of_rows(service: IndexService, name: str) -> None:
    exact = asked = 0
    for query in golden_tables.expected(name)["queries"]:
        if query["topn"] or query["limit"] or "matching_count" not in query:
            continue
        selector = SnapshotSelector(query["snapshot_id"], query["tag"], branch=query["branch"])
        version = service.resolve(golden_ref(name), selector)
        request = AggregateRequest(filter=query["filter_sql"] or query["predicate"])
        try:
            found = aggregate(version, request, Limits(), session_zone("UTC"))
        except UnsupportedFormatError:
            assert name == "data_evolution"
            return
        except PaimonIndexError:
            with pytest.raises(PaimonIndexError):
                version.files()
            continue
        [group] = found.groups
        [count] = group.values
        assert count.lower <= query["matching_count"] <= count.upper, query["name"]
        assert count.exact == found.exact == (not found.open_files)
        assert not count.exact or count.value == query["matching_count"]
        asked += 1
        exact += count.exact
    assert name not in EXACT_OFTEN or exact > asked / 2
