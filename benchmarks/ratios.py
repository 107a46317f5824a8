"""What figures say together: how cost grows, and how it compares with that of peers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from benchmarks import commits, engine, index_files, manifest_formats, merging, peers
from benchmarks.plans import COMPARED, FEW_VALUES, LARGEST, MANY_COLUMNS, MANY_VALUES, cold_name, warm_name
from benchmarks.services import KEYS, NO_INDEX, VALUES
from benchmarks.workload import Figure, Target, Unit

Key: TypeAlias = tuple[str, int]
"""Name and size of a figure."""

_GROWTH: Final = Target(11)
"""Ten times for ten times as much, and a tenth for measuring."""
_CONSTANT: Final = Target(2)
_FASTER_WARM: Final = Target(25, is_ceiling=False)
_NOT_SLOWER: Final = Target(1, is_ceiling=False)
_TEN_TIMES: Final = frozenset({LARGEST, 1_000_000, 10_000_000})


def ratios(figures: Sequence[Figure]) -> Iterator[Figure]:
    """Ratios of medians; those of which a part was not measured are left out."""
    medians = {(figure.name, figure.size): figure.p50 for figure in figures if figure.p50}
    by_key = {(figure.name, figure.size): figure for figure in figures}
    wanted = [*_growth(figures), *_comparisons(), *_formats(), *_merging(), *_decoding(figures)]
    for name, above, below, target in wanted:
        if above in medians and below in medians:
            ratio = medians[above] / medians[below]
            ours = by_key[above if target is _GROWTH else below]
            yield Figure(
                name,
                above[1],
                Unit.TIMES,
                ratio,
                target=target,
                costs=ours.costs,
                kernel_share=ours.kernel_share,
            )
    yield from _added_manifest(medians, by_key)


def _growth(figures: Sequence[Figure]) -> Iterator[tuple[str, Key, Key, Target]]:
    for figure in figures:
        if figure.size in _TEN_TIMES and figure.unit is Unit.MILLISECONDS:
            smaller = figure.name, figure.size // 10
            yield f"growth by 10 x size: {figure.name}", (figure.name, figure.size), smaller, _GROWTH
    for many, few, layout in ((MANY_COLUMNS, NO_INDEX.title, NO_INDEX), (MANY_VALUES, FEW_VALUES, VALUES)):
        for question in peers.compared(layout, COMPARED):
            for name in (cold_name, warm_name):
                above, below = name(many, question.name), name(few, question.name)
                yield f"growth, {many}: {below}", (above, COMPARED), (below, COMPARED), _GROWTH


def _formats() -> Iterator[tuple[str, Key, Key, Target]]:
    """Manifests of other formats by those of Avro."""
    avro, *others = map(manifest_formats.decode_name, manifest_formats.FORMATS)
    size = manifest_formats.ENTRIES
    for other in others:
        yield f"{other} / {avro}", (other, size), (avro, size), _CONSTANT


def _merging() -> Iterator[tuple[str, Key, Key, Target]]:
    """Tables whose manifests nobody merges by such as merge them."""
    ours, theirs = merging.WAYS
    sizes = {merging.commit_name: merging.FILES, merging.plan_name: merging.FILES + merging.COMMITS}
    for name, size in sizes.items():
        yield f"{name(theirs)} / {ours}", (name(theirs), size), (name(ours), size), _NOT_SLOWER


def _comparisons() -> Iterator[tuple[str, Key, Key, Target | None]]:
    """Peers' plans of the largest table by ours."""
    for layout in peers.LAYOUTS:
        for question in peers.compared(layout, LARGEST):
            warm, cold = (name(layout.title, question.name) for name in (warm_name, cold_name))
            rust, rust_cold = (
                name(layout.title, question.name) for name in (peers.plan_name, peers.cold_name)
            )
            # Only where an index can tell that files do not match is there so much to gain.
            wanted: list[tuple[str, str, Target | None]] = [
                (rust, warm, None if layout is NO_INDEX else _FASTER_WARM),
                (rust_cold, cold, _NOT_SLOWER),
            ]
            if layout is KEYS:
                wanted += [
                    (engine.plan_name(is_cached=True), warm, _FASTER_WARM),
                    (engine.plan_name(is_cached=False), cold, None),
                ]
            for theirs, ours, target in wanted:
                yield f"{theirs} / {ours}", (theirs, LARGEST), (ours, LARGEST), target


def _decoding(figures: Sequence[Figure]) -> Iterator[tuple[str, Key, Key, Target | None]]:
    for size in {figure.size for figure in figures if figure.unit is Unit.NANOSECONDS_EACH}:
        for kind, predicate in index_files.CONDITIONS:
            theirs = engine.index_name(kind, predicate)
            for name, target in ((index_files.files_name, _NOT_SLOWER), (index_files.rows_name, None)):
                ours = name(kind, predicate)
                yield f"{theirs} / {ours}", (theirs, size), (ours, size), target


def _added_manifest(medians: Mapping[Key, float], by_key: Mapping[Key, Figure]) -> Iterator[Figure]:
    """Yield what a new snapshot costs beyond a plan of the one before, in a large table by a small one."""
    extra = []
    for manifests in commits.MANIFESTS:
        size = manifests * commits.FILES_PER_MANIFEST
        added, again = (commits.added_name(manifests), size), (commits.warm_name(manifests), size)
        if added in medians and again in medians:
            extra.append(medians[added] - medians[again])
    if len(extra) == len(commits.MANIFESTS) and extra[0] > 0:
        few, many = commits.MANIFESTS
        largest = by_key[commits.added_name(many), many * commits.FILES_PER_MANIFEST]
        yield Figure(
            f"growth by {many // few} x manifests: cost of one that is added",
            many * commits.FILES_PER_MANIFEST,
            Unit.TIMES,
            extra[1] / extra[0],
            target=_CONSTANT,
            costs=largest.costs,
            kernel_share=largest.kernel_share,
        )
