-- What happens while the connector runs. No value is one that a table cannot hold (infinities, 24:00, years beyond 9999).
SET search_path = inv, public;

INSERT INTO customers VALUES (3, 'Cy', 'cy@example.test', DEFAULT, 0, '2026-02-03T04:05:06+09', '{"n": [1, 2, {"k": null}]}');
UPDATE customers SET balance = balance + 1 WHERE id = 1;
UPDATE customers SET email = 'bo@example.test', active = true WHERE id = 2;
UPDATE customers SET id = 30 WHERE id = 3; -- the key changes
DELETE FROM customers WHERE id = 2;
INSERT INTO customers VALUES (2, 'Bo again', NULL, true, NULL, NULL, NULL); -- the key lives again
UPDATE customers SET name = name WHERE id = 1; -- nothing changes
BEGIN;
INSERT INTO customers VALUES (4, 'Di', 'di@example.test', true, 1, now(), NULL);
UPDATE customers SET balance = 2 WHERE id = 4;
DELETE FROM customers WHERE id = 4;
INSERT INTO customers VALUES (4, 'Di once more', 'di@example.test', true, 9, '2026-03-03T00:00:00Z', NULL);
COMMIT;
BEGIN;
INSERT INTO customers VALUES (5, 'never', NULL, true, 1, NULL, NULL);
DELETE FROM customers WHERE id = 1;
ROLLBACK;
BEGIN;
INSERT INTO customers VALUES (6, 'kept', NULL, true, 1, NULL, NULL);
SAVEPOINT s;
UPDATE customers SET name = 'lost' WHERE id = 6;
DELETE FROM customers WHERE id = 30;
ROLLBACK TO s;
COMMIT;
INSERT INTO customers VALUES (6, 'merged', NULL, false, 2, NULL, '[]') ON CONFLICT (id) DO UPDATE SET name = excluded.name, address = excluded.address;
INSERT INTO customers VALUES (7, 'gone', NULL, true, 1, NULL, NULL);
DELETE FROM customers WHERE id = 7;

INSERT INTO orders VALUES (1, 11, 'cog', 1, 9.9999);
UPDATE orders SET qty = qty * 2 WHERE order_id = 10;
UPDATE orders SET line_no = 9 WHERE order_id = 10 AND line_no = 2; -- part of the key changes
DELETE FROM orders WHERE order_id = 10 AND line_no = 1;
UPDATE orders SET price = price + 1 WHERE order_id % 3 = 0;
UPDATE orders SET order_id = order_id + 1000 WHERE order_id BETWEEN 100 AND 104; -- many keys in one statement
DELETE FROM orders WHERE order_id BETWEEN 130 AND 134;

UPDATE docs_full SET title = 't2' WHERE id = 1; -- body is unchanged, and comes from the old row
INSERT INTO docs_full VALUES (3, 'small', 's');
UPDATE docs_full SET body = repeat('zyxwvutsrq', 900) WHERE id = 3;
UPDATE docs_full SET title = 't3', id = 100 WHERE id = 3;
DELETE FROM docs_full WHERE id = 2;

UPDATE uniq SET v = 2 WHERE k = 'k1';
UPDATE uniq SET k = 'k2' WHERE k = 'k1';
INSERT INTO uniq VALUES ('k1', 10), ('k3', NULL);
DELETE FROM uniq WHERE k = '';

INSERT INTO "Odd Näme" VALUES (1, 'é "q" \ /', 'dot', 1), (2, E'line\nbreak\ttab', NULL, 2);
UPDATE "Odd Näme" SET "select" = -1, "do.t" = '' WHERE "Ключ" = 0;

INSERT INTO all_types VALUES (
  1, -32768, 2147483647, -9223372036854775808, 1.5, 2.25,
  12345678.90, 1234567890123456789012345678.0123456789, 12345678901234567890, 3.14159265358979, 12.34,
  'ab', 'varchar', 'text é€😀', 'CiText', '\x00ff10', true,
  '2026-11-29', '12:34:56.789012', '12:34:56.789', '12:34:56.789+02',
  '2026-11-29 12:34:56.789012', '2026-11-29 12:34:56.789', '2026-11-29 12:34:56', '2026-11-29 12:34:56.789012+02', '2026-11-29 12:34:56.789+02',
  '1 year 2 mons 3 days 04:05:06.789',
  '6f1c9a3e-8f0b-4d7b-9a36-0123456789ab', '{"a": 1, "a": 2}', '{"b": [1, 2.50]}', '<x>1</x>',
  '10.1.2.3/24', '10.1.0.0/16', '08:00:2b:01:02:03', '08:00:2b:01:02:03:04:05',
  B'1', B'10101010', B'110000000101', '(1.5,-2.5)',
  '[1,5)', '[1,5)', '[1.5,2.5]', '[2026-01-01,2026-01-02)', '[2026-01-01 00:00+00,)', '[2026-01-01,2026-02-01)',
  'high', 5, '("Main ""st""",123)',
  '{1,null,3}', '{"a","b,c",null}', '{1.10,2.20}', '{2026-01-01}', '{t,f}', '{6f1c9a3e-8f0b-4d7b-9a36-0123456789ab}', '{"2026-01-01 00:00:00+00"}',
  'k=>v,n=>NULL', 'a.b.c', 42, 'a:1 b:2', '16/B374D848');
INSERT INTO all_types (id) VALUES (2);
INSERT INTO all_types (id, c_small, c_real, c_double, c_num, c_numfree, c_date, c_time, c_timetz, c_ts, c_tstz, c_interval, c_text, c_bytea, c_inta, c_texta)
VALUES
  (3, 32767, 1e-45, 1.7976931348623157e308, -99999999.99, -0.000000000000000000001, '1582-10-10', '00:00', '00:00-15:59', '1582-10-10', '1582-10-10',
   '-1 mons -2 days -00:00:01', '', '', '{}', '{}'),
  (4, 0, -0.1, '-0', 0, 1e40, '9999-12-31', '23:59:59.999999', '23:59:59.999999+15:59', '9999-12-31 23:59:59.999999', '0001-01-01T00:00:00Z',
   '0', E'\\"\x7f', '\x', '{null}', '{"__debezium"}');
UPDATE all_types SET c_small = 1, c_text = NULL WHERE id = 1;
DELETE FROM all_types WHERE id = 2;
