-- The tables that are captured, with the rows that the connector finds when it starts. All data is made up.
CREATE EXTENSION hstore;
CREATE EXTENSION citext;
CREATE EXTENSION ltree;
CREATE SCHEMA inv;
SET search_path = inv, public;

CREATE TYPE mood AS ENUM ('low', 'fair', 'high');
CREATE DOMAIN positive AS integer CHECK (value > 0);
CREATE TYPE place AS (street text, zip text);

CREATE TABLE customers (
  id         int PRIMARY KEY,
  name       text NOT NULL,
  email      varchar(80),
  active     boolean NOT NULL DEFAULT true,
  balance    numeric(12, 2),
  created_at timestamptz,
  address    jsonb
);

-- The key has two columns, in another order than the table.
CREATE TABLE orders (
  line_no  int,
  order_id bigint,
  item     text,
  qty      int,
  price    numeric(10, 4),
  PRIMARY KEY (order_id, line_no)
);

-- Values of their own storage are in every event, because the whole old row is logged.
CREATE TABLE docs_full (id int PRIMARY KEY, title text, body text);
ALTER TABLE docs_full ALTER COLUMN body SET STORAGE EXTERNAL;
ALTER TABLE docs_full REPLICA IDENTITY FULL;

-- No primary key, but a unique index that identifies rows.
CREATE TABLE uniq (k text NOT NULL, v int);
CREATE UNIQUE INDEX uniq_k ON uniq (k);
ALTER TABLE uniq REPLICA IDENTITY USING INDEX uniq_k;

CREATE TABLE "Odd Näme" ("Ключ" int PRIMARY KEY, "sp ace" text, "do.t" text, "select" int);

CREATE TABLE all_types (
  id int PRIMARY KEY,
  c_small smallint, c_int int, c_big bigint, c_real real, c_double double precision,
  c_num numeric(10, 2), c_num38 numeric(38, 10), c_num0 numeric(20, 0), c_numfree numeric, c_money money,
  c_char char(5), c_varchar varchar(10), c_text text, c_citext citext, c_bytea bytea, c_bool boolean,
  c_date date, c_time time, c_time3 time(3), c_timetz timetz,
  c_ts timestamp, c_ts3 timestamp(3), c_ts0 timestamp(0), c_tstz timestamptz, c_tstz3 timestamptz(3), c_interval interval,
  c_uuid uuid, c_json json, c_jsonb jsonb, c_xml xml,
  c_inet inet, c_cidr cidr, c_mac macaddr, c_mac8 macaddr8,
  c_bit1 bit(1), c_bit8 bit(8), c_varbit varbit(20), c_point point,
  c_i4r int4range, c_i8r int8range, c_numr numrange, c_tsr tsrange, c_tstzr tstzrange, c_dater daterange,
  c_enum mood, c_dom positive,
  c_comp place, -- not captured
  c_inta int[], c_texta text[], c_numa numeric(10, 2)[], c_datea date[], c_boola boolean[], c_uuida uuid[], c_tstza timestamptz[],
  c_hstore hstore, c_ltree ltree, c_oid oid, c_tsv tsvector,
  c_lsn pg_lsn, -- not captured
  c_def int DEFAULT 7, c_nn text NOT NULL DEFAULT 'dflt',
  c_gen int GENERATED ALWAYS AS (id * 2) STORED -- excluded by the test
);

-- Its last row is written after everything else of a stage: when that has arrived, all has.
CREATE TABLE stages (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY);

INSERT INTO customers VALUES
  (1, 'Ada', 'ada@example.test', true, 100.50, '2026-01-02T03:04:05.678901Z', '{"city": "X"}'),
  (2, 'Bo', NULL, false, -0.01, '1969-12-31T23:59:59Z', NULL);
INSERT INTO orders VALUES (1, 10, 'nut', 5, 1.2500), (2, 10, 'bolt', 7, 0.1000);
INSERT INTO orders SELECT l, o, 'item ' || o * l, o, o / 3.0 FROM generate_series(100, 139) AS o, generate_series(1, 3) AS l;
INSERT INTO docs_full VALUES (1, 't1', repeat('abcdefghij', 1000)), (2, NULL, 'short');
INSERT INTO uniq VALUES ('k1', 1), ('', 0);
INSERT INTO "Odd Näme" VALUES (0, 'a', NULL, NULL);
INSERT INTO all_types (id) VALUES (0);
