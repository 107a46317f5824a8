"""What manifest lists say of manifests that were written here."""

import numpy as np

from app.table.commits.manifest_writing import Outline, listed, write_manifest
from app.table.manifests.manifest import Manifest
from tests import golden_cases
from tests.copied_tables import open_table
from tests.examples import share
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each


@for_each("name", share(golden_cases.tables(), 3))
def test_entries_are_listed_as_their_manifest_is(golden: GoldenWarehouse, name: str) -> None:
    table = open_table(golden.root, name).table
    resolved = table.resolve()
    for manifest in table.metadata.manifests(resolved):
        entries = list(manifest.entries(np.arange(len(manifest))))

        written = Manifest.read(write_manifest(entries, "null"))

        assert list(written.entries(np.arange(len(written)))) == entries
        assert listed("name", 1, Outline.of(entries), resolved.schema) == listed(
            "name", 1, written, resolved.schema
        )
