"""Spark without a jar: a DataFrame of the rows that a plan leaves.

make demo PORT=8080                              in one terminal
pip install './client[spark]'                    in another, in an environment of its own; Java 17
python examples/read_in_spark.py                 or cell by cell, in an editor that knows "# %%"

Lines with "# >" are what the cell above them prints. Where a jar can be added, examples/catalog.sql shows the
better way for most: SQL stays as it is.
"""

# %% Any classic session will do.
import os

from pyspark.sql import SparkSession

from paimon_index.spark import read_table, register

service = os.environ.get("URL", "http://localhost:8080")
spark = SparkSession.builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()

# %% The service is asked once, here; Spark then reads three files of ten.
sessions = read_table(
    spark, service, "main.demo.sessions", where="fee = 58.43", columns=["session_no", "fee"]
)
sessions.orderBy("session_no").limit(3).show()
# > +-----------+-----+
# > | session_no|  fee|
# > +-----------+-----+
# > |ember_00724|58.43|
# > | iris_02388|58.43|
# > | kelp_08010|58.43|
# > +-----------+-----+

# %% A join: only files that can have one of the small side's keys are read.
wanted = spark.createDataFrame([("ocean_00394",), ("kelp_08010",)], "session_no STRING")
found = read_table(
    spark, service, "main.demo.sessions", in_lists={"session_no": wanted}, columns=["session_no"]
)
print(found.count(), "rows")
# > 2 rows

# %% The same for SQL: a view of the data source.
register(spark)
spark.sql(f"""
    CREATE TEMPORARY VIEW sessions USING paimon_index
    OPTIONS (path 'main.demo.sessions', url '{service}', prune 'fee = 58.43')
""")
spark.sql("SELECT count(*) AS sessions, max(rank_no) AS highest FROM sessions WHERE fee = 58.43").show()
# > +--------+-------+
# > |sessions|highest|
# > +--------+-------+
# > |       8|  19474|
# > +--------+-------+
spark.stop()
