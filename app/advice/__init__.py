"""Advice on the file indexes of whole tables, by their cost and their savings."""

from app.advice.answers import Prices, TableAdvice
from app.advice.table_advice import MOST_FILES, advise_table
from app.advice.what_if import WhatIf, WhatIfRequest, try_indexes

__all__ = [
    # Maximum number of a table's files that advice reads.
    "MOST_FILES",
    # Prices of a terabyte read and of a thousand calls.
    "Prices",
    # Cost and use of a table's indexes, and what to do about them.
    "TableAdvice",
    # Files that new indexes would skip.
    "WhatIf",
    # Indexes to try.
    "WhatIfRequest",
    # Advises on the indexes of a table.
    "advise_table",
    # Tries indexes on some files of a version.
    "try_indexes",
]
