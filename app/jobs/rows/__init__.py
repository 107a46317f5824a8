"""New rows of a table, from a DataFrame to data files, as the engine writes them.

In this order: :mod:`~app.jobs.rows.target` checks that a table can be written, and describes it to tasks;
:mod:`~app.jobs.rows.incoming` fits a DataFrame to it; :mod:`~app.jobs.rows.preparing` checks values and
hashes keys in tasks; :mod:`~app.jobs.rows.assigning` gives dynamic buckets to keys;
:mod:`~app.jobs.rows.writing` makes the files of each bucket.
"""
