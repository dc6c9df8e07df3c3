-- More changes, after the tables have been read.
SET search_path = inv, public;

UPDATE customers SET balance = round(balance * 1.07, 2), address = jsonb_build_object('was', address) WHERE active;
DELETE FROM customers WHERE id = 30;
UPDATE customers SET id = 3 WHERE id = 4; -- a key that an earlier row had
INSERT INTO customers SELECT i, 'Customer ' || i, NULL, i % 2 = 0, i / 7.0, timestamptz '2026-05-01T00:00:00Z' + i * interval '1 hour', NULL
  FROM generate_series(200, 399) AS i;
DELETE FROM customers WHERE id >= 200 AND id % 5 = 0;

UPDATE orders SET qty = qty + 1 WHERE order_id % 2 = 0;
DELETE FROM orders WHERE line_no = 3;
INSERT INTO orders VALUES (1, 10, 'nut again', 1, 1), (3, 110, NULL, NULL, NULL);
MERGE INTO orders o USING (VALUES (1, 11), (1, 12)) AS n (line_no, order_id) ON o.order_id = n.order_id AND o.line_no = n.line_no
  WHEN MATCHED THEN UPDATE SET item = 'matched' WHEN NOT MATCHED THEN INSERT (line_no, order_id, item) VALUES (n.line_no, n.order_id, 'new');

UPDATE docs_full SET title = NULL;
DELETE FROM docs_full WHERE id = 1;
INSERT INTO docs_full VALUES (1, 'new', repeat('0123456789', 500));

DELETE FROM uniq WHERE k = 'k2';
UPDATE uniq SET k = 'K1' WHERE k = 'k1';
INSERT INTO uniq VALUES ('', 5);

DELETE FROM "Odd Näme" WHERE "Ключ" = 1;
UPDATE "Odd Näme" SET "Ключ" = 1 WHERE "Ключ" = 2;

UPDATE all_types SET c_json = '[]', c_enum = 'low', c_numa = '{}', c_hstore = '', c_varbit = B'1' WHERE id = 1;
UPDATE all_types SET id = -1 WHERE id = 3;
DELETE FROM all_types WHERE id = 0;
