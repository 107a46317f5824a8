"""The Python client: plans as objects, NumPy and Arrow, keys of a join, counts, changes, errors.

make demo PORT=8080                      in one terminal
pip install ./client                     in another, in an environment of its own
python examples/client.py                or cell by cell, in an editor that knows "# %%"

Lines with "# >" are what the cell above them prints.
"""

# %% A client is a pool of connections; its calls have a deadline, and are tried again where that is safe.
import os

import pyarrow as pa

from paimon_index import Client, ServiceError

client = Client(os.environ.get("URL", "http://localhost:8080"), deadline_seconds=10)
print(client.tables("main", "demo"))
# > ('sessions', 'users', 'visits')

# %% A plan is read while it comes in, so millions of files take no more memory than a batch of them.
with client.plan("main.demo.sessions", filter="fee = 58.43") as plan:
    for file in plan:
        rows = "every row" if file.selection is None else file.selection.positions()
        print(file.path.rpartition("/")[2][:13], rows)
# > data-a5ef52ca [  6  87 125]
# > data-59c0f0da [21 32 81]
# > data-0c045eb1 [11 37]

# %% The facts about all of it come first.
plan = client.plan("main.demo.sessions", filter="rank_no BETWEEN 3400 AND 3500", selection="count")
print(plan.facts.summary.files_kept, "files,", plan.facts.summary.rows_selected, "rows")
plan.close()
# > 8 files, 8 rows

# %% A join's small side: keys as an Arrow array, up to 100,000 of them.
keys = pa.array(["ocean_00394", "kelp_08010", "nobody"])
print(client.plan("main.demo.sessions", in_lists={"session_no": keys}).to_arrow().num_rows, "files")
# > 1 files

# %% Deleted rows of every file, each as a pyroaring bitmap.
deleted = client.deletions("main.demo.visits", encoding="bitmap")
print(sum(file.cardinality for file in deleted.deletions), "deleted rows")
print(deleted.deletions[0].rows.bitmap[:4])
# > 224 deleted rows
# > BitMap([2, 3, 14, 25])

# %% The three most frequent grades, counted by their bitmap: no data file is read.
answer = client.aggregate("main.demo.sessions", group_by=["grade"], top=3)
print({group.key["grade"]: group.values[0].value for group in answer.groups}, len(answer.open_files), "open")
# > {2645: 187, 2667: 176, 2665: 81} 0 open

# %% What came and went between two snapshots, after a filter, and since the last answer.
changes = client.changes("main.demo.sessions", 2, snapshot_id=3, filter="rank_no > 3400")
print(len(changes.added), "files came,", len(changes.removed), "went")
later = client.changes("main.demo.sessions", from_token=changes.next_from_token, wait_seconds=0.1)
print(len(later.added), "files came since,", len(later.removed), "went")
# > 3 files came, 0 went
# > 0 files came since, 0 went

# %% A question that the service refuses names the place.
try:
    client.plan("main.demo.sessions", filter="fe = 58.43")
except ServiceError as error:
    print(error.problem.slug, error.problem.column, error.problem.position)
client.close()
# > filter fe 0
