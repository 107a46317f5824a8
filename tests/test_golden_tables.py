from tests import golden_tables
from tests.golden_cases import for_each
from tests.golden_tables import GoldenWarehouse


@for_each("name", golden_tables.tables())
def test_every_table_is_unpacked_with_its_expectations(golden: GoldenWarehouse, name: str) -> None:
    assert (golden.table(name) / "schema" / "schema-0").is_file()
    assert golden_tables.expected(name)["table"] == name
