package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Topics of the made-up shop.
const (
	customersTopic = "shop.customers"
	ordersTopic    = "shop.orders"
)

// event is one record as Debezium's JSON converter writes it without schemas.
type event struct {
	topic      string
	key, value []byte // a nil value is a tombstone
}

// row is a table row; Key fields first.
type row map[string]any

// columns of a topic's table in the order in which the demo asks for them; the first is the primary key.
func columns(topic string) []string {
	if topic == customersTopic {
		return []string{"id", "name", "email", "city"}
	}
	return []string{"id", "customer_id", "status", "item", "amount"}
}

// shop is a small database whose changes become events. It is also the oracle: what is in its maps is what every
// engine must answer.
type shop struct {
	r      *rand.Rand
	clock  time.Time
	lsn    int64
	rows   map[string]map[int64]row
	next   map[string]int64
	events []event
	counts map[string]int // inserts, updates, deletes, key changes
}

func newShop(seed uint64) *shop {
	return &shop{
		r:      rand.New(rand.NewPCG(seed, 1)),
		clock:  time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC),
		lsn:    24_000_000,
		rows:   map[string]map[int64]row{customersTopic: {}, ordersTopic: {}},
		next:   map[string]int64{customersTopic: 1000, ordersTopic: 50_000},
		counts: map[string]int{},
	}
}

// drain hands over the events since the last call.
func (s *shop) drain() []event {
	out := s.events
	s.events = nil
	return out
}

func (s *shop) insert(topic string) error {
	id := s.next[topic]
	s.next[topic]++
	after := s.newRow(topic, id)
	s.rows[topic][id] = after
	s.counts["inserts"]++
	return s.emit(topic, "c", id, nil, after)
}

func (s *shop) newRow(topic string, id int64) row {
	if topic == customersTopic {
		name := pick(s.r, "Ada", "Edsger", "Grace", "Alan", "Barbara", "Niklaus", "Frances", "Tony") + " " +
			pick(s.r, "Moreau", "Okafor", "Lindqvist", "Tanaka", "Silva", "Novák", "Haddad", "Fischer")
		var email any = fmt.Sprintf("c%d@example.com", id)
		if s.r.IntN(12) == 0 {
			email = nil
		}
		return row{"id": id, "name": name, "email": email, "city": s.city()}
	}
	return row{"id": id, "customer_id": s.any(customersTopic), "status": "placed",
		"item": pick(s.r, "kettle", "lamp", "chair", "teapot", "clock", "rug"), "amount": float64(500+s.r.IntN(20_000)) / 4}
}

func (s *shop) city() string {
	return pick(s.r, "Lyon", "Lagos", "Malmö", "Osaka", "Porto", "Brno", "Beirut", "Graz")
}

// update moves an order on, or a customer.
func (s *shop) update(topic string) error {
	id := s.any(topic)
	before := s.rows[topic][id]
	after := row{}
	for k, v := range before {
		after[k] = v
	}
	if topic == customersTopic {
		after["city"] = s.city()
	} else {
		after["status"] = map[any]string{"placed": "paid", "paid": "shipped", "shipped": "delivered"}[before["status"]]
		if after["status"] == "" {
			after["status"] = "returned"
		}
	}
	s.rows[topic][id] = after
	s.counts["updates"]++
	return s.emit(topic, "u", id, before, after)
}

func (s *shop) remove(topic string) error {
	id := s.any(topic)
	before := s.rows[topic][id]
	delete(s.rows[topic], id)
	s.counts["deletes"]++
	return s.emit(topic, "d", id, before, nil)
}

// rekey changes a primary key, which Debezium writes as a delete of the old key and an insert of the new one.
func (s *shop) rekey(topic string) error {
	old := s.any(topic)
	before := s.rows[topic][old]
	id := s.next[topic]
	s.next[topic]++
	after := row{}
	for k, v := range before {
		after[k] = v
	}
	after["id"] = id
	delete(s.rows[topic], old)
	s.rows[topic][id] = after
	s.counts["key changes"]++
	if err := s.emit(topic, "d", old, before, nil); err != nil {
		return err
	}
	return s.emit(topic, "c", id, nil, after)
}

// any picks a live row.
func (s *shop) any(topic string) int64 {
	ids := make([]int64, 0, len(s.rows[topic]))
	for id := range s.rows[topic] {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids[s.r.IntN(len(ids))]
}

// emit writes one change, and the tombstone that follows a delete.
func (s *shop) emit(topic, op string, id int64, before, after row) error {
	s.clock = s.clock.Add(time.Duration(1+s.r.IntN(900)) * time.Millisecond)
	s.lsn += int64(64 + s.r.IntN(400))
	key, err := json.Marshal(map[string]any{"id": id})
	if err != nil {
		return err
	}
	value, err := json.Marshal(map[string]any{
		"before": before, "after": after, "op": op, "ts_ms": s.clock.UnixMilli(),
		"source": map[string]any{
			"version": "3.6.1.Final", "connector": "postgresql", "name": "shop", "ts_ms": s.clock.UnixMilli() - 40,
			"snapshot": "false", "db": "shop", "schema": "public", "table": topic[len("shop."):], "lsn": s.lsn, "txId": s.lsn / 512,
		},
		"transaction": nil,
	})
	if err != nil {
		return err
	}
	s.events = append(s.events, event{topic, key, value})
	if op == "d" {
		s.events = append(s.events, event{topic, key, nil})
	}
	return nil
}

// expected answers the rows of a topic as lists of values in column order, by key.
func (s *shop) expected(topic string) [][]any {
	var out [][]any
	for _, r := range s.rows[topic] {
		line := make([]any, 0, len(r))
		for _, c := range columns(topic) {
			line = append(line, r[c])
		}
		out = append(out, line)
	}
	return out
}

func pick(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }
