"""pypaimon, and through it Polars, DuckDB, pandas, Daft and Ray: only files that a plan keeps are read.

make demo PORT=8080                          in one terminal
pip install './client[pypaimon]' duckdb      in another, in an environment of its own
python examples/read_with_pypaimon.py        or cell by cell, in an editor that knows "# %%"

Lines with "# >" are what the cell above them prints.
"""

# %% A table of pypaimon's, and a filter in its terms.
import os

import duckdb
import polars as pl
from pypaimon import CatalogFactory

from paimon_index.pypaimon import planned

service = os.environ.get("URL", "http://localhost:8080")
catalog = CatalogFactory.create({"warehouse": "demo/warehouse"})
sessions = catalog.get_table("demo.sessions")
predicates = sessions.new_read_builder().new_predicate_builder()
wanted = predicates.is_in("session_no", ["ocean_00394", "kelp_08010"])

# %% The service is asked once, here; the first plan of a table, whose indexes it decodes, takes longest.
table = planned(sessions, wanted, service, timeout_seconds=30)

# %% Splits, merging and deletions stay pypaimon's own. The table itself has ten files.
builder = table.new_read_builder().with_filter(wanted)
splits = builder.new_scan().plan().splits()
rows = builder.new_read().to_arrow(splits)
print(rows.num_rows, "rows of", sum(len(split.files) for split in splits), "file")
# > 2 rows of 1 file

# %% Polars and DuckDB take Arrow's rows as they are.
print(pl.from_arrow(rows).select("session_no", "grade").sort("grade").rows())
# > [('kelp_08010', 2655), ('ocean_00394', 2667)]
print(duckdb.sql("SELECT sum(fee), max(rank_no) FROM rows").fetchall())
# > [(Decimal('116.86'), 19474)]

# %% Where the service is not there, the table is as it was, and a warning tells why.
print(planned(sessions, wanted, "http://localhost:1") is sessions)
# > True
