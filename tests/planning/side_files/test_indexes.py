"""Index files beside data files: what plans fetch of them, and that they fetch it once."""

import gc
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from app.file_index import container
from app.file_index.index_kinds import BITMAP
from app.file_index.stacked_index import StackedIndex
from app.planning.request.budget import UNBOUNDED, Budget
from app.planning.request.limits import CacheBytes
from app.planning.request.requests import SelectionForm
from app.planning.side_files.fetch import FRONT_BYTES, Fronts
from app.planning.side_files.file_indexes import FileIndexes
from app.planning.version.version import Version
from app.work import Cancellation, cancellable
from app.work.ledger import LEDGER, REFUSE
from tests.planning.tables_beside import (
    CAT,
    DEFAULT_FILTER_BYTES,
    FILES,
    ID,
    PLACE,
    ROWS,
    Beside,
    MakeBeside,
    Read,
    Reads,
    counted_service,
    large,
    small,
)
from tests.tables import MadeTable, entry, file_of, names_of, payload


def medium(file: int) -> bytes:
    """Return an index that lies within the front of a file, which is too large to be kept as a whole."""
    cat = payload(BITMAP, [file % 10] * ROWS, CAT)
    return container.write({"cat": [("bitmap", cat)], "id": [("bloom-filter", bytes(20_000))]})


@pytest.fixture
def beside_small(make_beside: MakeBeside) -> Beside:
    return make_beside(small)


def fronts(*files: int) -> list[Read]:
    return [Read(str(file), 0, FRONT_BYTES) for file in files]


def test_only_files_that_statistics_leave_are_fetched(beside_small: Beside) -> None:
    assert beside_small.kept("place BETWEEN 2 AND 4 AND cat = 3") == ["3"]
    assert beside_small.reads.taken() == fronts(2, 3, 4)


def test_without_a_question_to_indexes_nothing_is_fetched(beside: Beside) -> None:
    assert beside.kept("place = 3") == ["3"]
    assert beside.kept("place >= 0 AND id <= 99") == [str(file) for file in range(FILES)]
    assert not beside.reads.taken()


def test_of_a_large_file_only_what_is_asked_is_read(beside: Beside) -> None:
    filter_of_3, bitmap_of_3 = beside.extent("3", "id"), beside.extent("3", "cat")
    assert filter_of_3.end - filter_of_3.start == DEFAULT_FILTER_BYTES

    assert beside.kept("place = 3 AND cat = 3") == ["3"]
    assert beside.reads.taken() == [*fronts(3), bitmap_of_3]

    assert beside.kept("place = 3 AND id = 3") == ["3"]
    assert beside.reads.taken() == [filter_of_3]


def test_what_an_index_has_nothing_to_say_of_is_not_fetched(beside: Beside) -> None:
    assert beside.kept("place = 3 AND id > 3") == ["3"]
    assert beside.reads.taken() == fronts(3)


def test_a_small_file_is_read_at_once(beside_small: Beside) -> None:
    assert beside_small.kept("id = 3 AND cat = 3") == ["3"]
    assert beside_small.reads.taken() == fronts(*range(FILES))


def test_a_later_plan_fetches_nothing_again(beside: Beside) -> None:
    for category in (3, 5, 7):
        assert beside.kept(f"cat = {category}") == [str(category)][: category < FILES]
        assert bool(beside.reads.taken()) == (category == 3)
    for explain in (False, True):
        beside.made.plan(beside.service, "cat = 4", explain=explain)
        assert not beside.reads.taken()


def test_a_plan_that_leaves_further_files_fetches_only_these(beside: Beside) -> None:
    beside.kept("place IN (1, 5) AND cat = 1")
    beside.reads.taken()

    assert beside.kept("place >= 1 AND cat = 4") == ["4"]
    assert {read.file for read in beside.reads.taken()} == {"2", "3", "4"}
    assert beside.kept("cat = 0") == ["0"]
    assert {read.file for read in beside.reads.taken()} == {"0"}


TWO_SEGMENTS = 70
"""So many default filters take more than a segment may."""


@pytest.fixture
def two_segments(tmp_path: Path) -> MadeTable:
    """Return a table of one manifest, whose ``id`` is the file's number modulo two."""
    made = MadeTable.make(tmp_path, (ID, CAT, PLACE))
    bodies = []
    for body in range(2):
        bodies.append(tmp_path / str(body))
        bodies[-1].write_bytes(large(body))
    for file in range(TWO_SEGMENTS):
        made.side_file(str(file)).hardlink_to(bodies[file % 2])
    made.commit(
        [file_of(str(at), {PLACE: [at] * ROWS}, extra_files=(f"{at}.index",)) for at in range(TWO_SEGMENTS)]
    )
    return made


def test_segments_of_large_payloads_hold_few_files_each(two_segments: MadeTable, tmp_path: Path) -> None:
    reads, made = Reads(), two_segments

    with closing(counted_service(tmp_path, reads)) as service:
        plan = made.plan(service, "id = 1")
        fetched = len(reads.taken())
        caches = service.caches.statistics()
        again = made.plan(service, "id = 0 AND place > 60")

    assert names_of(plan.files) == [str(file) for file in range(1, TWO_SEGMENTS, 2)]
    assert fetched == 2 * TWO_SEGMENTS
    # One of heads, two of payloads.
    assert caches["file_indexes"]["entries"] == 3
    assert names_of(again.files) == ["62", "64", "66", "68"]
    assert not reads.taken()


class Loaded:
    """How many indexes with payloads were in memory at each read."""

    def __init__(self) -> None:
        self.at_reads: list[int] = []
        # Fixtures that outlive a test keep some.
        self._of_others = self._alive()

    def count(self, _: Read) -> None:
        found = self._found()
        if found:
            # Garbage is looked for where it would matter: it takes longer than the read.
            gc.collect()
            found = self._found()
        self.at_reads.append(found)

    def _found(self) -> int:
        others = {id(each) for each in self._of_others}
        return sum(bool(each.fetched) and id(each) not in others for each in self._alive())

    def _alive(self) -> list[StackedIndex]:
        return [each for each in gc.get_objects() if isinstance(each, StackedIndex)]


def test_what_the_cache_does_not_keep_is_in_memory_while_its_segment_is_open(beside: Beside) -> None:
    loaded = Loaded()
    root = beside.made.directory.parent.parent
    with closing(counted_service(root, beside.reads, CacheBytes(file_indexes=0))) as service:
        beside.reads.before = loaded.count
        plan = beside.made.plan(service, "cat BETWEEN 1 AND 4", selection=SelectionForm.RANGES)

    assert names_of(plan.files) == ["1", "2", "3", "4"]
    # To decide about files, and for the rows of those that are kept.
    assert [read.file for read in beside.reads.made if read == beside.extent("4", "cat")] == ["4", "4"]
    # Each of the two manifests has a segment, and small payloads come with the heads.
    assert max(loaded.at_reads) <= 2


def test_what_the_cache_does_not_keep_is_in_memory_one_segment_at_a_time(
    two_segments: MadeTable, tmp_path: Path
) -> None:
    loaded, reads = Loaded(), Reads()
    reads.before = loaded.count
    with closing(counted_service(tmp_path, reads, CacheBytes(file_indexes=0))) as service:
        plan = two_segments.plan(service, "id = 1")

    assert len(plan.files) == TWO_SEGMENTS // 2
    assert not any(loaded.at_reads)


def test_other_columns_of_a_filter_do_not_matter(beside: Beside) -> None:
    assert beside.kept("cat = 3") == ["3"]
    beside.reads.taken()

    assert beside.kept("cat = 4 AND place = 4") == ["4"]
    assert beside.kept("cat = 4 AND id > 3") == ["4"]
    assert not beside.reads.taken()


def test_two_plans_at_a_time_fetch_payloads_once(beside: Beside) -> None:
    """Each is held up until the other plan waits for it as well."""

    def hold_up(read: Read) -> None:
        later = threading.Event()
        while read.start and not beside.service.caches.statistics()["file_indexes"]["waits"]:
            assert not later.wait(0.001)

    beside.reads.before = hold_up
    with ThreadPoolExecutor(2) as pool:
        plans = [pool.submit(beside.kept, f"place < 4 AND cat = {category}") for category in (1, 2)]
        assert [plan.result(30) for plan in plans] == [["1"], ["2"]]

    payloads = [read for read in beside.reads.taken() if read.start]
    assert len(payloads) == len(set(payloads)) == 4


@pytest.mark.parametrize("index", [small, large])
def test_two_plans_at_a_time_read_files_once(make_beside: MakeBeside, index: Callable[[int], bytes]) -> None:
    beside = make_beside(index)

    def hold_up(_: Read) -> None:
        later = threading.Event()
        while not beside.service.caches.statistics()["file_indexes"]["waits"]:
            assert not later.wait(0.001)

    beside.reads.before = hold_up
    with ThreadPoolExecutor(2) as pool:
        plans = [pool.submit(beside.kept, f"cat = {category}") for category in (1, 4)]
        assert [plan.result(30) for plan in plans] == [["1"], ["4"]]

    read = beside.reads.taken()
    assert [each for each in read if not each.start] == fronts(*range(FILES))
    assert len(read) == len(set(read))


def test_memory_is_claimed_before_files_are_read(beside: Beside) -> None:
    claimed: list[int] = []
    beside.reads.before = lambda read: claimed.append(0 if read.start else LEDGER.claimed["loads"])
    nothing = LEDGER.claimed.get("loads", 0)

    assert beside.kept("cat = 3") == ["3"]

    assert min(size for size in claimed if size) > nothing + 2 * FRONT_BYTES
    assert LEDGER.claimed["loads"] == nothing


def test_fronts_beyond_memory_are_read_again_for_their_payloads(
    make_beside: MakeBeside, limit_memory: Callable[[int], None]
) -> None:
    beside = make_beside(medium)
    limit_fronts(limit_memory, 1)

    assert beside.kept("cat = 3") == ["3"]

    read = beside.reads.taken()
    assert sorted(each for each in read if not each.start) == fronts(*range(FILES))
    assert len(read) > FILES
    assert beside.kept("cat = 4") == ["4"]


def limit_fronts(limit_memory: Callable[[int], None], count: int) -> None:
    """Leave so much memory that ``count`` fronts may be held."""
    limit_memory(int(16 * count * FRONT_BYTES / REFUSE) + 100)
    assert Fronts.most_bytes() // FRONT_BYTES == count


@pytest.fixture
def many_manifests(tmp_path: Path) -> MadeTable:
    """Return a table of 20 manifests, each of one file with an index of which the front is held."""
    made = MadeTable.make(tmp_path, (ID, CAT, PLACE))
    made.commit(
        *(
            [made.beside(entry(file_name=f"{at}", row_count=ROWS, embedded_index=medium(at)))]
            for at in range(20)
        )
    )
    return made


def test_no_more_is_read_ahead_than_fronts_may_be_held(
    many_manifests: MadeTable, tmp_path: Path, limit_memory: Callable[[int], None]
) -> None:
    limit_fronts(limit_memory, 3)
    reads = Reads()
    with closing(counted_service(tmp_path, reads)) as service:
        version = many_manifests.version(service)
        stacks = FileIndexes(version).stacks(version.files().all(), frozenset([("cat", BITMAP)]))
        for place, stacked in enumerate(stacks):
            assert stacked.at.tolist() == [place]
            assert len(reads.made) <= place + 3


def test_files_of_one_manifest_are_read_while_those_of_another_are_looked_at(beside: Beside) -> None:
    """Each manifest has a segment of its own."""
    next_began = threading.Event()

    def hold_up(read: Read) -> None:
        if read == Read("5", 0, FRONT_BYTES):
            next_began.set()
        elif read.start and read.file == "0":
            # Behind its front lies what a look at the first manifest needs.
            assert next_began.wait(30)

    beside.reads.before = hold_up

    assert beside.kept("cat = 5") == ["5"]
    assert sorted(read for read in beside.reads.taken() if read.start == 0) == fronts(*range(FILES))


class TestReach:
    @pytest.fixture
    def version(self, beside_small: Beside) -> Version:
        return beside_small.made.version(beside_small.service)

    def places(self, version: Version, budget: Budget) -> list[int]:
        indexes, files = FileIndexes(version, budget), version.files().all()
        stacks = indexes.stacks(files, frozenset([("cat", BITMAP)]))
        places = sorted(place for stacked in stacks for place in stacked.at.tolist())
        assert sorted([*places, *indexes.not_loaded(files).tolist()]) == files.tolist()
        return places

    def test_without_time_only_what_is_in_memory_is_asked(
        self, version: Version, beside_small: Beside
    ) -> None:
        assert self.places(version, Budget(0)) == []
        assert not beside_small.reads.taken()

        assert self.places(version, UNBOUNDED) == [*range(FILES)]
        assert self.places(version, Budget(0)) == [*range(FILES)]

    def test_a_plan_goes_on_where_another_s_request_ends(
        self, version: Version, beside_small: Beside
    ) -> None:
        cancellation, may_end = Cancellation(), threading.Event()

        def hold_up(_: Read) -> None:
            assert may_end.wait(30)

        beside_small.reads.before = hold_up

        def impatient() -> list[int]:
            with cancellable(cancellation):
                return self.places(version, UNBOUNDED)

        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(impatient)
            second = pool.submit(self.places, version, UNBOUNDED)
            while not beside_small.service.caches.statistics()["file_indexes"]["waits"]:
                assert not second.done()
            cancellation.cancel()
            may_end.set()
            outcomes = [first.exception(30), second.exception(30)]

        assert sum(outcome is None for outcome in outcomes) >= 1
        assert second.result() == [*range(FILES)]


def test_a_plan_says_that_its_index_files_do_not_fit_into_the_cache(beside: Beside) -> None:
    capacity = 1 << 20
    with closing(beside.local_service(CacheBytes(file_indexes=capacity))) as service:
        few = beside.made.plan(service, "place = 3 AND id = 3")
        many = beside.made.plan(service, "id = 3")
        again = beside.made.plan(service, "id = 3")

    assert names_of(few.files) == names_of(many.files) == ["3"]
    assert not few.warnings
    assert again.warnings == many.warnings
    assert f"the cache for them has {capacity}" in many.warnings[0]
    assert "PAIMON_INDEX_MEMORY_BYTES" in many.warnings[0]
    # It is remembered for its further pages.
    assert again is many
