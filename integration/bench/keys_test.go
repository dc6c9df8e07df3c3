package bench

import (
	"fmt"
	"testing"
)

const (
	lookupRounds     = 3
	lookupIncrements = 100
)

// benchKeys is part (j): keys made into runs and looked up, without Kafka.
func benchKeys(t *testing.T, f *field, r *report) {
	r.part("j", "keys per second of processor time, runs made directly")
	walked := Series{}
	for range lookupRounds {
		walked = append(walked, play(t, role{Name: "keys", Format: formatAvro, Events: f.events, Dir: t.TempDir()}).PerSecond()/1e6)
	}
	r.ratio("walk: looked up and made into runs, million", walked, "/s", AtLeast(1))
	for _, keys := range []int{10 * f.events, 100 * f.events} {
		found, size := Series{}, Series{}
		for range lookupRounds {
			m := play(t, role{Name: "lookups", Events: keys, Repeat: lookupIncrements, Dir: t.TempDir()})
			found = append(found, m.PerSecond()/1e6)
			size = append(size, float64(m.Bytes)/float64(keys))
		}
		r.ratio(fmt.Sprintf("increments of %d against %d M keys, million", increment, keys/1e6), found, "/s", AtLeast(0.3))
		r.ratio("  on disk, bytes per key", size, "", AtMost(14))
		if keys > 10*f.events {
			continue // Pebble takes long to write them
		}
		found, size = Series{}, Series{}
		for range lookupRounds {
			m := play(t, role{Name: "pebble", Events: keys, Repeat: lookupIncrements / 10, Dir: t.TempDir()})
			found = append(found, m.PerSecond()/1e6)
			size = append(size, float64(m.Bytes)/float64(keys))
		}
		r.row("  the same keys got from Pebble, million", found, "/s")
		r.row("  on disk in Pebble, bytes per key", size, "")
	}
}
