-- SPDX-License-Identifier: Apache-2.0
CREATE TABLE t(id INTEGER PRIMARY KEY, name TEXT, value REAL);
CREATE INDEX by_name ON t(name);
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
  INSERT INTO t SELECT i, printf('name-%d-%s', i * 7919 % 60000, hex(i)), i * 0.5 FROM n;
SELECT count(*), sum(value), max(name) FROM t;
SELECT substr(name, 1, 7) AS p, count(*), group_concat(id % 10) FROM t GROUP BY p ORDER BY p LIMIT 5;
UPDATE t SET name = name || '-x' WHERE id % 3 = 0;
DELETE FROM t WHERE id % 5 = 0;
VACUUM;
SELECT count(*), max(name), sum(length(json_object('n', name, 'v', value))) FROM t;
PRAGMA integrity_check;
