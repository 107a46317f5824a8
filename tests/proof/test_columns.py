"""Columns that the proof draws are what it says of them."""

from random import Random

from tests.proof.columns import cast, random_column


def test_a_code_reads_alike_from_each_file_that_may_hold_it() -> None:
    for seed in range(200):
        column = random_column(Random(seed), 0, "c", [True] * 4, "BIGINT", fixed=False)
        types = [field.type for field in column.fields if field is not None]
        for stored, codes, data_type in zip(column.stored, column.codes, types, strict=True):
            values = [(stored[code], column.read[code]) for code in codes]
            read = [None if value is None else cast(value, data_type, types[-1]) for value, _ in values]
            # As texts, for NaN is no NaN.
            assert [*map(repr, read)] == [repr(value) for _, value in values], (seed, types)
