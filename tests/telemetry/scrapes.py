"""What ``/metrics`` says, read as a scraper reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    import httpx
    from prometheus_client.core import Metric

TABLES = "/v1/main/databases/golden/tables"
ROUTE = "/v1/{warehouse}/databases/{database}/tables/{table}"


class Scrape:
    """One answer of ``/metrics``."""

    def __init__(self, text: str) -> None:
        self.families: dict[str, Metric] = {each.name: each for each in text_string_to_metric_families(text)}
        self._values = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in self.families.values()
            for sample in family.samples
        }

    @classmethod
    def of(cls, client: httpx.Client) -> Scrape:
        """Scrapes a service."""
        answer = client.get("/metrics")
        assert answer.status_code == 200, answer.text
        return cls(answer.text)

    def value(self, name: str, **labels: str) -> float:
        """A number; 0 where there is none yet."""
        return self._values.get((f"paimon_index_{name}", tuple(sorted(labels.items()))), 0)

    def total(self, name: str, **labels: str) -> float:
        """The sum over all labels but those given."""
        return sum(
            value
            for (sample, found), value in self._values.items()
            if sample == f"paimon_index_{name}" and labels.items() <= dict(found).items()
        )

    def growing(self) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
        """Every number that never goes down."""
        kinds = {sample.name: family.type for family in self.families.values() for sample in family.samples}
        return {
            key: value for key, value in self._values.items() if kinds[key[0]] in ("counter", "histogram")
        }
