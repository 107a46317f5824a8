"""Reads with pypaimon by the service's plans. Needs the extra ``pypaimon`` of this distribution."""

from paimon_index.pypaimon.planning import UnplannedWarning, planned

__all__ = ["UnplannedWarning", "planned"]
