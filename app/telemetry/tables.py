"""Numbers that only grow, by label values: cheap to add to, turned into Prometheus' families when asked for.

The client library's own counters take a lock and a look-up for each number. Here whoever adds holds one lock
for all that is to be added at a time, so that a request's numbers cost a few microseconds together.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.utils import floatToGoString

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from prometheus_client.core import Metric

Labels = tuple[str, ...]


class Counts:
    """Counters of one name.

    Args:
        name: without ``_total``, which the text form adds.
        help_text: what is counted.
        labels: names of the labels, in the order of the values that :meth:`add` is given.
    """

    def __init__(self, name: str, help_text: str, labels: Labels = ()) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        # What has no labels is there from the start, so that its rate is known when it first grows.
        self._values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, labels: Labels, amount: float = 1) -> None:
        """Counts on; the caller holds the lock."""
        self._values[labels] = self._values.get(labels, 0) + amount

    def family(self) -> Metric:
        """The counters as they are; the caller holds the lock."""
        family = CounterMetricFamily(self._name, self._help, labels=self._labels)
        for labels, value in self._values.items():
            family.add_metric(labels, value)
        return family


class Durations:
    """Histograms of seconds, of one name.

    Args:
        name: ends in ``_seconds``.
        help_text: what is timed.
        labels: as of :class:`Counts`.
        bounds: upper bounds of the buckets, ascending, in seconds; one without bound follows.
    """

    def __init__(self, name: str, help_text: str, labels: Labels, bounds: Sequence[float]) -> None:
        self._name = name
        self._help = help_text
        self._labels = labels
        self._bounds = tuple(bounds)
        self._les = (*map(floatToGoString, self._bounds), "+Inf")
        self._rows: dict[Labels, list[float]] = {}

    def add(self, labels: Labels, seconds: float) -> None:
        """Counts one; the caller holds the lock."""
        row = self._rows.get(labels)
        if row is None:
            # A number for each bucket, and the seconds of all of them.
            row = self._rows[labels] = [0.0] * (len(self._bounds) + 2)
        row[bisect_left(self._bounds, seconds)] += 1
        row[-1] += seconds

    def counts(self) -> Iterator[tuple[Labels, float]]:
        """How many were timed, by labels; the caller holds the lock."""
        for labels, row in self._rows.items():
            yield labels, sum(row[:-1])

    def family(self) -> Metric:
        """The histograms as they are; the caller holds the lock."""
        family = HistogramMetricFamily(self._name, self._help, labels=self._labels)
        for labels, row in self._rows.items():
            buckets = list(zip(self._les, accumulate(row[:-1]), strict=True))
            family.add_metric(labels, buckets, row[-1])
        return family
