"""The assigners as they are defined: one key after the other, over dictionaries."""

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np

from app.bucket_index.partition_buckets import Assignment, Strategy
from app.options.table_options import AssignerOptions

Files: TypeAlias = Mapping[tuple[int, int], list[int]]
"""The hashes of each partition and bucket, in the order of the index manifest."""


class NoBucketError(Exception):
    """There is no bucket for a key."""


class PlainHashAssigner:
    """Every new key draws a number, needed or not."""

    def __init__(self, options: AssignerOptions, files: Files, source: np.random.Generator) -> None:
        self.options, self.files, self.source = options, files, source
        self.buckets: dict[int, dict[int, int]] = {}
        self.non_full: dict[int, dict[int, int]] = {}
        self.used: dict[int, list[int]] = {}
        self.highest = 0

    def load(self, partition: int) -> None:
        rows: dict[int, int] = {}
        self.buckets[partition] = {}
        for (where, bucket), hashes in self.files.items():
            if where == partition:
                self.buckets[partition] |= dict.fromkeys(hashes, bucket)
                if hashes and bucket % self.options.assigners == self.own:
                    rows[bucket] = len(hashes)
        slots: list[list[int]] = [[] for _ in range(16)]
        entered: list[int] = []
        for bucket in (bucket for bucket, count in rows.items() for _ in range(count)):
            # java.util.HashMap.compute
            if len(entered) > len(slots) * 3 // 4:
                slots = [
                    [each for each in slots[at % len(slots)] if each % (2 * len(slots)) == at]
                    for at in range(2 * len(slots))
                ]
            if bucket not in entered:
                entered.append(bucket)
                slots[bucket % len(slots)].insert(0, bucket)
        self.non_full[partition] = {bucket: rows[bucket] for slot in slots for bucket in slot}
        self.used[partition] = sorted(rows)

    @property
    def own(self) -> int:
        return self.options.assign_id % self.options.assigners

    def assign(self, partition: int, key_hash: int) -> Assignment:
        if partition not in self.buckets:
            self.load(partition)
        known = self.buckets[partition].get(key_hash)
        found = Assignment(known, Strategy.EXISTING) if known is not None else self.place(partition)
        self.buckets[partition][key_hash] = found.bucket
        self.highest = max(self.highest, found.bucket)
        return found

    def place(self, partition: int) -> Assignment:
        (drawn,) = self.source.random(1).tolist()
        non_full, used = self.non_full[partition], self.used[partition]
        for bucket in list(non_full):
            if non_full[bucket] < self.options.target_rows:
                non_full[bucket] += 1
                return Assignment(bucket, Strategy.NON_FULL)
            del non_full[bucket]
        limit = 32766 if self.options.max_buckets == -1 else self.options.max_buckets - 1
        if not used or self.highest < limit:
            for bucket in range(self.own, limit + 1, self.options.assigners):
                if bucket not in used:
                    non_full[bucket] = 1
                    used.append(bucket)
                    used.sort()
                    return Assignment(bucket, Strategy.NEW)
            if self.options.max_buckets == -1:
                raise NoBucketError
        if not used:
            raise NoBucketError
        return Assignment(used[int(drawn * len(used))], Strategy.RANDOM, tuple(used))
