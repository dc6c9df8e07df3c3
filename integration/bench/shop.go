package bench

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// The mix of events, of 100: what is left are deletes, each followed by its tombstone.
const (
	inserts = 64
	updates = 33

	// recent orders take most of the updates and deletes.
	recent       = 20000
	recentChange = 80 // of 100
)

// order is a row of the shop's table at one time. Equal fields give equal columns.
type order struct {
	id      int64
	version int
	at      int64 // microseconds since the epoch
}

// event is one record of the topic. A nil after and a false tombstone is a delete.
type event struct {
	key           int64
	before, after *order
	tombstone     bool
	at            int64 // microseconds since the epoch
	transaction   int64
}

// shop makes up the changes of a table of orders: inserts with ascending ids, updates and deletes mostly of recent
// orders. The same seed gives the same events. Not safe for concurrent use.
type shop struct {
	random    *rand.Rand
	live      []order
	made      int64
	tombstone int64 // key that needs one, 0 if none
	previous  [2]order
}

// firstMoment is when the first event happens; the others follow, a hundredth of a second apart.
const firstMoment = 1_795_985_000_000_000

func newShop(seed uint64) *shop {
	return &shop{random: rand.New(rand.NewPCG(seed, 0x5f0b))}
}

// next answers the next event. It is valid until the one after.
func (s *shop) next() event {
	e := event{at: firstMoment + 10_000*s.made, transaction: 700 + s.made}
	s.made++
	if s.tombstone != 0 {
		e.key, e.tombstone = s.tombstone, true
		s.tombstone = 0
		return e
	}
	switch kind := s.random.IntN(100); {
	case kind < inserts || len(s.live) == 0:
		s.live = append(s.live, order{id: s.made, at: e.at})
		e.key, e.after = s.made, &s.live[len(s.live)-1]
	case kind < inserts+updates:
		o := &s.live[s.pick()]
		s.previous[0] = *o
		o.version++
		o.at = e.at
		e.key, e.before, e.after = o.id, &s.previous[0], o
	default:
		i := s.pick()
		s.previous[0] = s.live[i]
		s.live[i] = s.live[len(s.live)-1]
		s.live = s.live[:len(s.live)-1]
		e.key, e.before = s.previous[0].id, &s.previous[0]
		s.tombstone = e.key
	}
	return e
}

func (s *shop) pick() int {
	n := len(s.live)
	if s.random.IntN(100) < recentChange {
		return n - 1 - s.random.IntN(min(n, recent))
	}
	return s.random.IntN(n)
}

// The columns of a row.

func mix(v uint64) uint64 {
	v ^= v >> 30
	v *= 0xbf58476d1ce4e5b9
	v ^= v >> 27
	v *= 0x94d049bb133111eb
	return v ^ v>>31
}

func (o *order) status() string {
	return [...]string{"created", "paid", "packed", "shipped", "delivered", "returned"}[min(o.version, 5)]
}

func (o *order) appendCustomer(b []byte) []byte {
	return fmt.Appendf(b, "customer-%07d", mix(uint64(o.id))%500_000)
}

func (o *order) appendTracking(b []byte) []byte {
	hi, lo := mix(uint64(o.id)<<1), mix(uint64(o.id)<<1|1)
	return fmt.Appendf(b, "%08x-%04x-4%03x-8%03x-%012x", uint32(hi>>32), uint16(hi>>16), hi&0xfff, lo>>52, lo&0xffff_ffff_ffff)
}

func (o *order) appendNote(b []byte) []byte {
	words := strings.Fields("leave at the door ring twice call before delivery fragile handle with care second floor left side gift wrap " +
		"please no substitutes express priority customer deliver after noon neighbour may sign keep upright invoice enclosed")
	seed := mix(uint64(o.id) + uint64(o.version/2)<<40)
	for i := range 9 {
		if i > 0 {
			b = append(b, ' ')
		}
		b = append(b, words[seed%uint64(len(words))]...)
		seed = mix(seed)
	}
	return b
}

// cents is the amount.
func (o *order) cents() int64 { return 100 + int64(mix(uint64(o.id)+77)%2_000_000)/5*5 }

// qty is absent from every eighth order.
func (o *order) qty() (n int64, ok bool) {
	v := mix(uint64(o.id)+99) % 8
	return int64(v) + int64(o.version), v != 7
}

func (o *order) gift() bool { return mix(uint64(o.id)+3)%10 == 0 }

// grams is the weight.
func (o *order) grams() int64 { return int64(mix(uint64(o.id)+5) % 30_000) }
