# SPDX-License-Identifier: Apache-2.0
"""Prints SQL for a shop: a schema, orders one by one, then reports; always the same."""

from __future__ import annotations

import random

WORDS = "apple bench candle drum easel fiddle gong hammer iron jug kettle lamp mirror needle oar plate quilt rope saw tray".split()
rng = random.Random(99)


def text(count: int) -> str:
    return " ".join(rng.choices(WORDS, k=count))


print("""PRAGMA journal_mode = memory; PRAGMA cache_size = -2000; PRAGMA synchronous = off;
CREATE TABLE customer(id INTEGER PRIMARY KEY, name TEXT NOT NULL, town TEXT, data TEXT);
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price REAL CHECK(price > 0));
CREATE TABLE sale(id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customer, at TEXT, note TEXT);
CREATE TABLE line(sale INTEGER REFERENCES sale ON DELETE CASCADE, item INTEGER REFERENCES item, count INTEGER, PRIMARY KEY(sale, item)) WITHOUT ROWID;
CREATE INDEX sale_at ON sale(at); CREATE INDEX line_item ON line(item, count);
CREATE TABLE audit(what TEXT, id INTEGER, old TEXT);
CREATE TRIGGER kept AFTER UPDATE ON sale BEGIN INSERT INTO audit VALUES('sale', old.id, old.note || '>' || new.note); END;
CREATE VIRTUAL TABLE notes USING fts5(note);
BEGIN;""")
for i in range(300):
    print(f"INSERT INTO customer VALUES({i}, '{text(2).title()}', '{rng.choice(WORDS)}ton', json_object('vip', {i % 7 == 0}, 'tags', json_array('{rng.choice(WORDS)}', {i})));")
for i in range(400):
    print(f"INSERT INTO item VALUES({i}, '{text(2)}', {rng.randrange(100, 90_000) / 100});")
print("COMMIT;")
sale = 0
for day in range(60):
    print("BEGIN;")
    for _ in range(rng.randrange(15, 45)):
        sale += 1
        note = text(rng.randrange(1, 25))
        print(f"INSERT INTO sale VALUES({sale}, {rng.randrange(300)}, date('2020-01-01', '+{day} days'), '{note}');")
        print(f"INSERT INTO notes(rowid, note) VALUES({sale}, '{note}');")
        for item in rng.sample(range(400), rng.randrange(1, 5)):
            print(f"INSERT INTO line VALUES({sale}, {item}, {rng.randrange(1, 9)});")
    if rng.random() < 0.5:
        print(f"UPDATE sale SET note = note || ' late' WHERE id % 17 = {day % 17};")
    print(f"SELECT c.name, sum(l.count * i.price) FROM customer c JOIN sale s ON s.customer = c.id JOIN line l ON l.sale = s.id JOIN item i ON i.id = l.item"
          f" WHERE s.at > date('2020-01-01', '+{day - 5} days') GROUP BY c.id HAVING sum(l.count) > 3 ORDER BY 2 DESC LIMIT 10;")
    print("COMMIT;" if rng.random() < 0.95 else "ROLLBACK;")
print("""-- pause
WITH daily AS (SELECT s.at, sum(l.count * i.price) AS total FROM sale s JOIN line l ON l.sale = s.id JOIN item i ON i.id = l.item GROUP BY s.at)
  SELECT at, total, avg(total) OVER (ORDER BY at ROWS 6 PRECEDING), rank() OVER (ORDER BY total DESC) FROM daily;
SELECT town, group_concat(name, '; '), json_group_array(json_extract(data, '$.tags[0]')) FROM customer GROUP BY town;
SELECT i.name, count(DISTINCT s.customer), max(s.note) FROM item i LEFT JOIN line l ON l.item = i.id LEFT JOIN sale s ON s.id = l.sale GROUP BY i.id ORDER BY 2 DESC, 1;
WITH RECURSIVE chain(id, depth, path) AS (SELECT 1, 0, '1' UNION ALL SELECT (id * 7 + 3) % 293, depth + 1, path || '>' || id FROM chain WHERE depth < 300)
  SELECT max(length(path)) FROM chain;
ANALYZE;""")
for word in WORDS:
    print(f"SELECT s.at, snippet(notes, 0, '[', ']', '..', 5) FROM notes JOIN sale s ON s.id = notes.rowid WHERE notes MATCH '{word} AND {rng.choice(WORDS)}' ORDER BY rank LIMIT 8;")
    print(f"SELECT count(*), total(length(note)) FROM sale WHERE note LIKE '%{word}%' AND customer IN (SELECT id FROM customer WHERE json_extract(data, '$.vip'));")
    print(f"DELETE FROM sale WHERE note LIKE '{word} %' AND id % 3 = 0;")
print("DELETE FROM line WHERE sale NOT IN (SELECT id FROM sale); VACUUM; PRAGMA integrity_check;")
