"""pypaimon over the plans of the service; needs the extra ``pypaimon`` of this distribution."""

from paimon_index.pypaimon.planning import UnplannedWarning, planned

__all__ = ["UnplannedWarning", "planned"]
