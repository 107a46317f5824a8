"""Tables with any history: orphans are exactly what no version names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.table.index_tables import DAY, NOW, IndexTable, ReaderOf, paths_of

BRANCHES = ("", "branch/branch-dev/", "branch/branch-a/b/")
TAGS = ("v1", "v2", "a/b", "a/c")


class History:
    """What a table went through, and what its versions name by now.

    Attributes:
        manifests: the index files that each index manifest lists.
        versions: the index manifest of each version by its path, None for versions without.
    """

    def __init__(self, table: IndexTable) -> None:
        self.table = table
        self.manifests: dict[str, list[str]] = {}
        self.versions: dict[str, str | None] = {}
        self._snapshots = 0

    def in_use(self) -> set[str]:
        named = {manifest for manifest in self.versions.values() if manifest is not None}
        return named.union(*(self.manifests[manifest] for manifest in named))

    def commit(self, branch: str, choice: int) -> None:
        """Keeps some of the latest index files of the branch, and adds others."""
        self._snapshots += 1
        latest = [path for path in self.versions if path.startswith(f"{branch}snapshot/")]
        before = self.versions[latest[-1]] if latest else None
        manifest = before
        if choice % 4:
            kept = self.manifests[before][: choice % 3] if before else []
            files = [*kept, *(self.table.index_file() for _ in range(choice % 4 - 1))]
            manifest = self.table.index_manifest(*files)
            self.manifests[manifest] = files
        self._write(f"{branch}snapshot/snapshot-{self._snapshots}", manifest)

    def tag(self, branch: str, choice: int) -> None:
        """Tags a snapshot, perhaps anew under the same name."""
        self._copy(f"{branch}snapshot/", f"{branch}tag/tag-{TAGS[choice % len(TAGS)]}", choice)

    def branch(self, branch: str, choice: int) -> None:
        """Begins a branch with the snapshot of a tag."""
        self._snapshots += 1
        self._copy("tag/", f"{branch}snapshot/snapshot-{self._snapshots}", choice)

    def expire(self, branch: str, choice: int) -> None:
        """Forgets a snapshot, as a changelog perhaps, and leaves its files behind."""
        snapshots = [path for path in self.versions if path.startswith(f"{branch}snapshot/")]
        if len(snapshots) > 1:
            if choice % 2:
                self._write(f"{branch}changelog/changelog-{choice}", self.versions[snapshots[0]])
            self._delete(snapshots[0])

    def forget(self, branch: str, choice: int) -> None:
        """Deletes a tag."""
        tags = [path for path in self.versions if path.startswith(f"{branch}tag/")]
        if tags:
            self._delete(tags[choice % len(tags)])

    def abandon(self, branch: str, choice: int) -> None:
        """Stops a commit after its index files, or after its index manifest; or drops a branch."""
        if choice % 3 == 0 and branch:
            for path in [path for path in self.versions if path.startswith(branch)]:
                self._delete(path)
            return
        files = [self.table.index_file() for _ in range(choice % 3)]
        if choice % 2:
            self.manifests[self.table.index_manifest(*files)] = files

    def _copy(self, source: str, target: str, choice: int) -> None:
        sources = [path for path in self.versions if path.startswith(source)]
        if sources:
            self._write(target, self.versions[sources[choice % len(sources)]])

    def _write(self, path: str, manifest: str | None) -> None:
        self.table.version(path, manifest)
        self.versions[path] = manifest

    def _delete(self, path: str) -> None:
        self.table.delete(path)
        del self.versions[path]


STEPS: list[Callable[[History, str, int], None]] = [
    History.commit,
    History.commit,
    History.tag,
    History.branch,
    History.expire,
    History.expire,
    History.forget,
    History.abandon,
]


@examples(200)
@given(
    st.lists(st.tuples(st.sampled_from(STEPS), st.sampled_from(BRANCHES), st.integers(0, 11)), max_size=40)
)
def test_orphans_are_what_no_version_names(
    reader_of: ReaderOf, steps: list[tuple[Callable[[History, str, int], None], str, int]]
) -> None:
    with TemporaryDirectory() as root:
        history = History(IndexTable.make(Path(root)))
        for number, (step, branch, choice) in enumerate(steps):
            step(history, branch, choice)
            if number % 15 == 14:
                _remove_all(history, reader_of)
        _remove_all(history, reader_of)


def _remove_all(history: History, reader_of: ReaderOf) -> None:
    in_use = history.in_use()
    found = paths_of(history.table.orphans(reader_of).find(DAY, NOW).found)

    assert set(found) == history.table.paths() - in_use
    for path in found:
        history.table.delete(path)
