// Command demo shows Frazil on one machine with nothing installed: a Kafka-protocol broker in this process, made-up
// change events, bin/frazil, and DuckDB and PyIceberg as anybody has them. It ends with 0 only if every answer of both
// engines was right.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

func main() {
	frazil := flag.String("frazil", "bin/frazil", "the binary")
	python := flag.String("python", ".venv/bin/python", "a Python with the packages of requirements.txt")
	split := flag.Bool("split", false, "run each service in a process of its own")
	seed := flag.Uint64("seed", 1, "of the made-up events")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *frazil, *python, *seed, *split)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "\ndemo failed:", err)
		os.Exit(1)
	}
	say("\nEvery answer was right.")
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) } //nolint:forbidigo // a demo talks

func run(ctx context.Context, frazil, python string, seed uint64, split bool) (err error) {
	dir, err := os.MkdirTemp("", "frazil-demo-")
	if err != nil {
		return err
	}
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, customersTopic), kfake.SeedTopics(3, ordersTopic))
	if err != nil {
		return fmt.Errorf("start broker: %w", err)
	}
	defer broker.Close()
	address := broker.ListenAddrs()[0]
	say("A Kafka-protocol broker runs in this process at %s.", address)

	producer, err := kgo.NewClient(kgo.SeedBrokers(address))
	if err != nil {
		return err
	}
	defer producer.Close()

	d := &demo{ctx: ctx, shop: newShop(seed), producer: producer}
	if err := d.firstEvents(); err != nil {
		return err
	}
	gateway, err := startGateway(ctx, frazil, address, dir, split)
	if err != nil {
		return err
	}
	defer func() { err = finish(err, gateway, dir) }()
	how := "frazil up --brokers " + address
	if split {
		how = "five processes of frazil serve --target=…"
	}
	say("Frazil is up: %s   (Iceberg REST catalog at %s)\n", how, gateway.uri)
	engines, err := startEngines(ctx, python, gateway.uri)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engines.stop()) }()
	d.engines = engines
	return d.show()
}

// finish stops the gateway; after a failure its files stay for a look.
func finish(err error, g *gateway, dir string) error {
	err = errors.Join(err, g.stop())
	if err != nil {
		return fmt.Errorf("%w (files are left in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

type demo struct {
	ctx      context.Context //nolint:containedctx // the demo's own life
	shop     *shop
	producer *kgo.Client
	engines  *engines
}

func (d *demo) firstEvents() error {
	s := d.shop
	for range 200 {
		if err := s.insert(customersTopic); err != nil {
			return err
		}
	}
	for range 3000 {
		var err error
		switch n := s.r.IntN(100); {
		case n < 40 || len(s.rows[ordersTopic]) < 50:
			err = s.insert(ordersTopic)
		case n < 85:
			err = s.update(ordersTopic)
		case n < 90:
			err = s.remove(ordersTopic)
		case n < 92:
			err = s.rekey(ordersTopic)
		case n < 99:
			err = s.update(customersTopic)
		default:
			err = s.remove(customersTopic)
		}
		if err != nil {
			return err
		}
	}
	return d.produce("Written")
}

// produce sends what the shop did since the last call.
func (d *demo) produce(verb string) error {
	events := d.shop.drain()
	for _, e := range events {
		d.producer.Produce(d.ctx, &kgo.Record{Topic: e.topic, Key: e.key, Value: e.value}, nil)
	}
	if err := d.producer.Flush(d.ctx); err != nil {
		return fmt.Errorf("produce: %w", err)
	}
	c := d.shop.counts
	say("%s: %d records in Debezium's JSON: %d inserts, %d updates, %d deletes, %d key changes.",
		verb, len(events), c["inserts"], c["updates"], c["deletes"], c["key changes"])
	clear(c)
	return nil
}

const summary = `SELECT status, count(*) AS orders, CAST(sum(amount) AS DECIMAL(18, 2)) AS amount
  FROM frazil.kafka.shop_orders GROUP BY status ORDER BY status`

func (d *demo) show() error {
	if err := d.query(summary); err != nil {
		return err
	}
	if err := d.checkAll("the current rows", d.wanted(), 0); err != nil {
		return err
	}
	var before int64
	if err := d.engines.ask(map[string]any{"op": "pyiceberg_snapshot", "warehouse": "v2", "table": tableOf(ordersTopic)}, &before); err != nil {
		return err
	}
	then := d.wanted()

	say("")
	if err := d.change(); err != nil {
		return err
	}
	if err := d.query(summary); err != nil {
		return err
	}
	if err := d.checkAll("the current rows", d.wanted(), 0); err != nil {
		return err
	}

	say("\nTime travel, to the snapshot before the change:")
	if err := d.query(strings.Replace(summary, "shop_orders", fmt.Sprintf("shop_orders AT (VERSION => %d)", before), 1)); err != nil {
		return err
	}
	return d.check(ordersTopic, "the rows of then", then[ordersTopic], before)
}

// change does what a minute in a shop does.
func (d *demo) change() error {
	for range 40 {
		if err := d.shop.insert(ordersTopic); err != nil {
			return err
		}
	}
	for range 120 {
		if err := errors.Join(d.shop.update(ordersTopic), d.shop.update(customersTopic)); err != nil {
			return err
		}
	}
	for range 30 {
		if err := errors.Join(d.shop.remove(ordersTopic), d.shop.rekey(ordersTopic)); err != nil {
			return err
		}
	}
	return d.produce("Now more")
}

// wanted is what the tables must hold at this moment.
func (d *demo) wanted() map[string][][]any {
	return map[string][][]any{
		customersTopic: d.shop.expected(customersTopic),
		ordersTopic:    d.shop.expected(ordersTopic),
	}
}

// query prints a statement and DuckDB's answer.
func (d *demo) query(sql string) error {
	var answer struct {
		Columns []string
		Rows    [][]any
	}
	if err := d.engines.ask(map[string]any{"op": "duckdb_sql", "warehouse": "v2", "sql": sql}, &answer); err != nil {
		return err
	}
	say("DuckDB> %s;", sql)
	lines := [][]string{answer.Columns}
	for _, r := range answer.Rows {
		line := make([]string, len(r))
		for i, v := range r {
			line[i] = fmt.Sprint(v)
		}
		lines = append(lines, line)
	}
	for _, line := range lines {
		say("          %-12s %8s %14s", line[0], line[1], line[2])
	}
	return nil
}

func tableOf(topic string) string { return strings.ReplaceAll(topic, ".", "_") }

func (d *demo) checkAll(what string, want map[string][][]any, snapshot int64) error {
	for _, topic := range []string{customersTopic, ordersTopic} {
		if err := d.check(topic, what, want[topic], snapshot); err != nil {
			return err
		}
	}
	return nil
}

// check reads all rows with both engines in both dialects and compares every value. snapshot 0 is the current one.
func (d *demo) check(topic, what string, want [][]any, snapshot int64) error {
	expected := canonical(want)
	var took []string
	for _, warehouse := range []string{"v2", "v3"} {
		for _, engine := range []string{"duckdb", "pyiceberg"} {
			began := time.Now()
			var rows [][]any
			err := d.engines.ask(map[string]any{"op": engine + "_rows", "warehouse": warehouse, "table": tableOf(topic),
				"columns": columns(topic), "snapshot": snapshot}, &rows)
			if err != nil {
				return err
			}
			if got := canonical(rows); !slices.Equal(got, expected) {
				return fmt.Errorf("%s on %s: %s of %s are wrong: %s", engine, warehouse, what, topic, difference(got, expected))
			}
			took = append(took, fmt.Sprintf("%s/%s %dms", engine, warehouse, time.Since(began).Milliseconds()))
		}
	}
	say("  checked %s of %s: %d, equal to the fold of the topic in %s", what, tableOf(topic), len(want), strings.Join(took, ", "))
	return nil
}

// canonical prints rows as sorted JSON lines.
func canonical(rows [][]any) []string {
	out := make([]string, 0, len(rows))
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			line = fmt.Append(nil, r)
		}
		out = append(out, string(line))
	}
	slices.Sort(out)
	return out
}

func difference(got, want []string) string {
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%d rows for %d, missing %s", len(got), len(want), want[i])
		case i >= len(want):
			return fmt.Sprintf("%d rows for %d, unexpected %s", len(got), len(want), got[i])
		case got[i] != want[i]:
			return fmt.Sprintf("%d rows for %d, %s for %s", len(got), len(want), got[i], want[i])
		}
	}
	return "no difference"
}
