"""In a process of your own, without a server: the same answers.

pip install .                            in an environment of its own
python examples/library.py               or cell by cell, in an editor that knows "# %%"

Lines with "# >" are what the cell above them prints.
"""

# %% A service in this process keeps what it reads: open it once, and ask it from many threads.
import sys
from collections import Counter
from contextlib import ExitStack

from app import open_service
from app.library import BucketsRequest, PlanRequest, SelectionForm, SortKey, TableRef, TopN

warehouse = sys.argv[1] if len(sys.argv) > 1 else "demo/warehouse"
opened = ExitStack()
service = opened.enter_context(open_service({"main": warehouse}))
sessions = TableRef("main", "demo", "sessions")

# %% Files and rows; `selection` is a pyroaring bitmap of positions, and None means every row.
plan = service.plan(sessions, PlanRequest(filter="fee = 58.43"))
for file in plan.files:
    print(file.file_name[:13], file.selection)
# > data-a5ef52ca BitMap([6, 87, 125])
# > data-59c0f0da BitMap([21, 32, 81])
# > data-0c045eb1 BitMap([11, 37])

# %% What took the other files away.
print({step.value: files for step, files in plan.summary.skipped_by.items() if files})
# > {'file_index': 7}

# %% The dearest three sessions: bounds and indexes tell which files cannot have one of them.
by_fee = TopN(order_by=[SortKey(column="fee", direction="desc")], limit=3)
dearest = PlanRequest(top_n=by_fee, selection=SelectionForm.COUNT)
print(service.plan(sessions, dearest).summary.files_kept, "files")
# > 3 files

# %% Buckets of a table, by partition.
buckets = service.buckets(TableRef("main", "demo", "users"), BucketsRequest())
print(sorted(Counter(bucket.partition["dte"] for bucket in buckets.buckets).items()))
# > [('2024-01-01', 6), ('2024-01-02', 3), ('x/y z', 2)]
opened.close()
