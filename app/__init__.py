"""paimon-index: answers from Apache Paimon index files."""

from importlib.metadata import version

__version__ = version("paimon-index")
