# SPDX-License-Identifier: Apache-2.0
. "$FILES/servers/server.sh"
initdb -D db -A trust -U me --no-sync --locale=C -E UTF8 >initdb.log
postgres -D db -k "$PWD" -c listen_addresses= -c fsync=off >server.log 2>&1 &
server=$!
export PGHOST=$PWD PGUSER=me PGDATABASE=postgres
until_ok pg_isready
pgbench -i -q -s 2 >pgbench.log 2>&1
pgbench -n -c 4 -j 2 -t 300 | grep 'transactions actually'
pgbench -n -S -M prepared -c 4 -j 2 -t 1000 | grep 'transactions actually'
psql -Atq <<'END'
CREATE TABLE t AS SELECT i, md5(i::text) AS h, jsonb_build_object('a', i, 'b', array[i, i * 2]) AS j
  FROM generate_series(1, 50000) i;
CREATE INDEX ON t USING gin (j);
SELECT count(*), md5(string_agg(h, ',' ORDER BY h DESC)), sum((j->>'a')::int) FROM t;
SET max_parallel_workers_per_gather = 2;
SET parallel_setup_cost = 0;
SET parallel_tuple_cost = 0;
SET min_parallel_table_scan_size = 0;
SELECT substr(h, 1, 1) AS p, count(*) FROM t GROUP BY p ORDER BY p LIMIT 3;
SELECT count(*) FROM t WHERE j @> '{"a": 77}';
SELECT sum(abalance) = (SELECT sum(bbalance) FROM pgbench_branches) FROM pgbench_accounts;
SELECT 1 / 0;
END
pg_dump -t t | grep -v restrict | md5sum
pg_ctl -D db -s -m fast stop
stopped
