# SPDX-License-Identifier: Apache-2.0
"""Prints SQL for a session with postgres, in two halves; always the same. Usage: make_session_sql.py 1|2"""

from __future__ import annotations

import random
import sys

TABLES = """
CREATE TABLE person AS SELECT i AS id, md5(i::text) AS name, i % 40 AS town, jsonb_build_object('a', i, 'b', array[i, i * 2], 'c', repeat('x', i % 60)) AS data
  FROM generate_series(1, 12000) i;
ALTER TABLE person ADD PRIMARY KEY (id);
CREATE INDEX ON person USING gin (data);
CREATE TABLE visit AS SELECT i AS id, (i * 7919) % 12000 + 1 AS person, timestamp '2020-01-01' + i * interval '7 minutes' AS at, numeric '1.01' * (i % 977) AS paid
  FROM generate_series(1, 40000) i;
CREATE INDEX ON visit (id); CREATE INDEX ON visit (person); CREATE INDEX ON visit (at);
CREATE FUNCTION words(wanted int) RETURNS text LANGUAGE plpgsql AS $$
DECLARE made text := ''; one record;
BEGIN
  FOR one IN SELECT name, data FROM person WHERE town = wanted LOOP
    made := made || ' ' || upper(substr(one.name, 1, 5)) || coalesce(one.data->>'c', '');
    BEGIN
      IF length(made) % 50 = 0 THEN RAISE EXCEPTION 'fifty'; END IF;
    EXCEPTION WHEN raise_exception THEN made := substr(made, 10);
    END;
  END LOOP;
  RETURN md5(made);
END $$;
ANALYZE;
"""
BIG = """
SELECT count(*), md5(string_agg(name, ',' ORDER BY name DESC)) FROM person;
SELECT town, jsonb_object_agg(name, data) IS NOT NULL, array_agg(DISTINCT id % 100) FROM person GROUP BY town ORDER BY town;
SELECT p.name, sum(v.paid) AS paid FROM person p JOIN visit v ON v.person = p.id GROUP BY p.name HAVING sum(v.paid) > 2000 ORDER BY paid DESC LIMIT 50;
SELECT regexp_replace(name, '([0-9])([a-f])', '\\2\\1', 'g'), row_number() OVER (PARTITION BY town ORDER BY name) FROM person WHERE town < 4 ORDER BY 2, 1 LIMIT 500;
"""


def query(rng: random.Random) -> str:
    a, b = rng.randrange(12000), rng.randrange(40)
    return rng.choice((
        f"SELECT * FROM person WHERE id BETWEEN {a} AND {a + b};",
        f"SELECT p.town, count(*), avg(v.paid), to_char(max(v.at), 'DD Mon YYYY') FROM person p JOIN visit v ON v.person = p.id WHERE p.id % 40 = {b} AND v.id % 9 < 3"
        " GROUP BY p.town;",
        f"SELECT id FROM person WHERE data @> '{{\"a\": {a}}}';",
        f"SELECT words({b});",
        f"WITH RECURSIVE way(id, n) AS (SELECT {a + 1}, 1 UNION SELECT v.person, n + 1 FROM way JOIN visit v ON v.id = way.id WHERE n < 40) SELECT count(*), sum(id) FROM way;",
        f"UPDATE person SET data = data || jsonb_build_object('seen', {b}) WHERE id % 997 = {b};",
        f"SELECT string_agg(k || '=' || v, '&' ORDER BY k) FROM person, jsonb_each_text(data) AS e(k, v) WHERE town = {b} AND id < {a};",
        f"BEGIN; INSERT INTO visit SELECT 100000 + i, i, now(), 1 FROM generate_series(1, {b * 5}) i; ROLLBACK;",
        f"EXPLAIN SELECT * FROM pg_class c JOIN pg_attribute t ON t.attrelid = c.oid JOIN pg_type y ON y.oid = t.atttypid WHERE c.relname LIKE 'pg_{chr(97 + b % 26)}%';",
    ))


half = int(sys.argv[1])
rng = random.Random(half)
print(TABLES if half == 1 else "SELECT count(*) FROM visit;")
for _ in range(500 if half == 1 else 250):
    print(query(rng))
print(BIG)
