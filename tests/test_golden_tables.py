from tests import golden_cases
from tests.golden_cases import GoldenWarehouse
from tests.golden_checks import for_each


@for_each("name", golden_cases.tables())
def test_every_table_is_unpacked_with_its_expectations(golden: GoldenWarehouse, name: str) -> None:
    assert (golden.table(name) / "schema" / "schema-0").is_file()
    assert golden_cases.expected(name)["table"] == name
