-- SQL as it always was, planned by paimon-index: nothing here is about the service.
--
--   make demo PORT=8080                    in one terminal
--   make jvm                               in another, once: the jar of the catalog in jvm/target/ (Maven)
--   spark-sql --properties-file examples/catalog.conf -f examples/catalog.sql \
--     --jars paimon-spark-4.0_2.13-VERSION.jar,jvm/target/paimon-index-catalog-0.1.0.jar
--
-- Lines with "-- >" are what the statement above them prints.

SELECT session_no, fee, owner FROM main.demo.sessions WHERE fee = 58.43 ORDER BY session_no LIMIT 3;
-- > ember_00724	58.43	jade_00009
-- > iris_02388	58.43	grove_00006
-- > kelp_08010	58.43	delta_00043

-- Several conditions, several indexes: a bloom filter, and a range bitmap.
SELECT count(*) FROM main.demo.sessions WHERE session_no = 'ocean_00394' OR rank_no > 19700;
-- > 4

-- Deleted rows stay deleted, and versions are those of the table.
SELECT count(*) FROM main.demo.visits;
-- > 758
SELECT count(*) FROM main.demo.sessions VERSION AS OF 1 WHERE fee < 20;
-- > 50

-- Views and subqueries need no change either.
CREATE TEMPORARY VIEW dear AS SELECT owner, max(fee) AS fee FROM main.demo.sessions WHERE fee > 60 GROUP BY owner;
SELECT count(*) FROM dear WHERE owner IN (SELECT owner FROM main.demo.sessions WHERE session_no = 'ember_00724');
-- > 1
