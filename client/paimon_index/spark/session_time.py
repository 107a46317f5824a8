"""The time zone of a session, by the rules that its Java goes by.

Rules of zones change, and Java has a database of its own, of whatever release. The service is told which one
it is: where releases do not agree on a clock, it leaves nothing out that matches by the rules of the session.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from py4j.java_gateway import JavaClass

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PROVIDER: Final = "java.time.zone.ZoneRulesProvider"
_ALWAYS_THERE: Final = "UTC"
"""A zone of every database."""


def zone_of_session(spark: SparkSession) -> str:
    """The time zone and the release of its rules, such as ``America/Vancouver@2025a``."""
    zone = spark.conf.get("spark.sql.session.timeZone") or _ALWAYS_THERE
    if zone == _ALWAYS_THERE or zone[:1] in "+-":
        return zone
    provider = JavaClass(_PROVIDER, spark._jvm._gateway_client)  # noqa: SLF001 - no other door
    return f"{zone}@{provider.getVersions(_ALWAYS_THERE).lastKey()}"
