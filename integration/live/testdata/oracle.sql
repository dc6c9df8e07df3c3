-- What SELECT gives for every captured table, under the names that the topics have, each value spelt as the engines'
-- answers are (engines/canonical.py). The meanings are Debezium's documented ones: what a table cannot say otherwise is
-- a number of units (times of day, intervals), little-endian bytes (bit strings) or the database's text (ranges and the
-- like).
CREATE SCHEMA oracle;
SET search_path = oracle, inv, public;

CREATE FUNCTION at_zone_utc(timestamptz) RETURNS text IMMUTABLE LANGUAGE sql
  AS $$ SELECT 'tz:' || to_char($1 AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US') $$;
CREATE FUNCTION local(timestamp) RETURNS text IMMUTABLE LANGUAGE sql
  AS $$ SELECT 'ts:' || to_char($1, 'YYYY-MM-DD"T"HH24:MI:SS.US') $$;
CREATE FUNCTION day(date) RETURNS text IMMUTABLE LANGUAGE sql
  AS $$ SELECT 'date:' || to_char($1, 'YYYY-MM-DD') $$;
CREATE FUNCTION clock(time, per_second bigint) RETURNS bigint IMMUTABLE LANGUAGE sql
  AS $$ SELECT (extract(epoch FROM $1) * per_second)::bigint $$;
-- A month is a twelfth of 365.25 days.
CREATE FUNCTION micros(interval) RETURNS bigint IMMUTABLE LANGUAGE sql
  AS $$ SELECT (((extract(year FROM $1) * 12 + extract(month FROM $1)) * 30.4375 + extract(day FROM $1)) * 86400000000
    + (extract(hour FROM $1) * 3600 + extract(minute FROM $1) * 60 + extract(second FROM $1)) * 1000000)::bigint $$;
-- The first bit of a bit string is the highest of a number, whose bytes are written lowest first.
CREATE FUNCTION bits(varbit) RETURNS text IMMUTABLE LANGUAGE sql
  AS $$ WITH n AS (SELECT sum(get_bit($1, i) * (1::bigint << (length($1) - 1 - i)))::bigint AS v FROM generate_series(0, length($1) - 1) AS i)
    SELECT 'b:' || string_agg(lpad(to_hex((v >> 8 * i) & 255), 2, '0'), '' ORDER BY i) FROM n, generate_series(0, (length($1) - 1) / 8) AS i $$;
CREATE FUNCTION little_endian(float8) RETURNS text IMMUTABLE LANGUAGE sql
  AS $$ SELECT string_agg(lpad(to_hex(get_byte(float8send($1), i)), 2, '0'), '' ORDER BY i DESC) FROM generate_series(0, 7) AS i $$;
CREATE FUNCTION place_on_plane(point) RETURNS json IMMUTABLE STRICT LANGUAGE sql
  AS $$ SELECT json_build_object('x', 'f:' || $1[0], 'y', 'f:' || $1[1],
    'wkb', 'b:0101000000' || oracle.little_endian($1[0]) || oracle.little_endian($1[1]), 'srid', NULL) $$;
CREATE FUNCTION object(hstore) RETURNS text IMMUTABLE STRICT LANGUAGE sql
  AS $$ SELECT '{' || coalesce(string_agg(to_json(key) || ':' || coalesce(to_json(value)::text, 'null'), ',' ORDER BY key), '') || '}' FROM each($1) $$;

CREATE VIEW customers AS SELECT id, name, email, active, 'd:' || balance AS balance, at_zone_utc(created_at) AS created_at, address::text AS address
  FROM inv.customers;
CREATE VIEW orders AS SELECT line_no, order_id, item, qty, 'd:' || price AS price FROM inv.orders;
CREATE VIEW docs_full AS SELECT * FROM inv.docs_full;
CREATE VIEW uniq AS SELECT * FROM inv.uniq;
-- Avro's names are ASCII letters, digits and underscores.
CREATE VIEW "Odd_N_me" AS SELECT "Ключ" AS "____", "sp ace" AS sp_ace, "do.t" AS do_t, "select" FROM inv."Odd Näme";
CREATE VIEW stages AS SELECT * FROM inv.stages;
CREATE VIEW all_types AS SELECT id,
  c_small, c_int, c_big, 'f:' || c_real::float8 AS c_real, 'f:' || c_double AS c_double,
  'd:' || c_num AS c_num, 'd:' || c_num38 AS c_num38, 'd:' || c_num0 AS c_num0, c_numfree::text AS c_numfree, 'd:' || c_money::numeric AS c_money,
  c_char, c_varchar, c_text, c_citext, 'b:' || encode(c_bytea, 'hex') AS c_bytea, c_bool,
  day(c_date) AS c_date, clock(c_time, 1000000) AS c_time, clock(c_time3, 1000) AS c_time3,
  replace((c_timetz AT TIME ZONE 'UTC')::text, '+00', 'Z') AS c_timetz,
  local(c_ts) AS c_ts, local(c_ts3) AS c_ts3, local(c_ts0) AS c_ts0, at_zone_utc(c_tstz) AS c_tstz, at_zone_utc(c_tstz3) AS c_tstz3,
  micros(c_interval) AS c_interval,
  c_uuid, c_json::text AS c_json, c_jsonb::text AS c_jsonb, c_xml::text AS c_xml,
  c_inet, c_cidr, c_mac, c_mac8,
  c_bit1 = B'1' AS c_bit1, bits(c_bit8) AS c_bit8, bits(c_varbit) AS c_varbit, place_on_plane(c_point) AS c_point,
  c_i4r, c_i8r, c_numr, c_tsr, c_tstzr, c_dater,
  c_enum, c_dom,
  c_inta, c_texta,
  CASE WHEN c_numa IS NOT NULL THEN ARRAY(SELECT 'd:' || v FROM unnest(c_numa) WITH ORDINALITY AS u (v, i) ORDER BY i) END AS c_numa,
  CASE WHEN c_datea IS NOT NULL THEN ARRAY(SELECT day(v) FROM unnest(c_datea) WITH ORDINALITY AS u (v, i) ORDER BY i) END AS c_datea,
  c_boola, c_uuida,
  CASE WHEN c_tstza IS NOT NULL THEN ARRAY(SELECT at_zone_utc(v) FROM unnest(c_tstza) WITH ORDINALITY AS u (v, i) ORDER BY i) END AS c_tstza,
  object(c_hstore) AS c_hstore, c_ltree, c_oid::bigint AS c_oid, c_tsv,
  c_def, c_nn
  FROM inv.all_types;
