CREATE TABLE customers (
  id    bigint PRIMARY KEY,
  name  text NOT NULL,
  email text,
  city  text
);
CREATE TABLE orders (
  id          bigint PRIMARY KEY,
  customer_id bigint NOT NULL REFERENCES customers,
  status      text NOT NULL,
  amount      numeric(10, 2) NOT NULL,
  placed_at   timestamptz NOT NULL DEFAULT now()
);
INSERT INTO customers SELECT i, 'Customer ' || i, 'c' || i || '@example.com', (ARRAY['Lyon', 'Osaka', 'Porto'])[1 + i % 3]
  FROM generate_series(1, 100) AS i;
INSERT INTO orders SELECT i, 1 + i % 100, 'placed', (i * 7 % 1000) / 4.0 FROM generate_series(1, 1000) AS i;
