"""pypaimon over the service's plans (``pip install 'paimon-index-client[pypaimon]'``)."""

from paimon_index.pypaimon.planning import UnplannedWarning, planned

__all__ = ["UnplannedWarning", "planned"]
