package physical

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// shape says what a table looks like and what happens to it; foreign/Shape.java explains the fields.
type shape struct {
	Name      string     `json:"name"`
	Seed      int64      `json:"seed"`
	Commits   int        `json:"commits"`
	Rows      int        `json:"rows"`
	Version   int        `json:"version"`
	Upgrade   int        `json:"upgrade"`
	Keys      [][]string `json:"keys"`
	Partition string     `json:"partition"`
	Evolve    []string   `json:"evolve"`
	Formats   []string   `json:"formats"`
	Space     int        `json:"space"`
	Nulls     bool       `json:"nulls"`
	Twice     bool       `json:"twice"`
	Positions bool       `json:"positions"`
	Global    bool       `json:"global"`
	Remove    bool       `json:"remove"`
	Rename    *string    `json:"rename"`
	Drop      bool       `json:"drop"`
	Widen     bool       `json:"widen"`
	Slashes   bool       `json:"slashes"`
}

// shapes are the tables that the Java library writes. Each is a case that someone else's table will be.
func shapes(seed int64) []shape {
	name := "name"
	parquet, mixed := []string{"parquet"}, []string{"parquet", "avro"}
	all := []shape{
		// The plainest: what a sink without partitions leaves after 200 checkpoints.
		{Name: "many_commits", Commits: 200, Rows: 6, Version: 2, Keys: [][]string{{"id"}}, Formats: parquet, Space: 400},
		{Name: "from_v1", Commits: 24, Rows: 12, Version: 1, Upgrade: 2, Keys: [][]string{{"id"}}, Formats: parquet, Space: 120, Remove: true},
		{Name: "partitioned", Commits: 30, Rows: 16, Version: 2, Keys: [][]string{{"id", "region"}}, Partition: "region", Formats: parquet, Space: 80, Nulls: true, Positions: true},
		{Name: "evolved", Commits: 40, Rows: 16, Version: 2, Keys: [][]string{{"id"}}, Evolve: []string{"bucket", "region,day"}, Formats: parquet, Space: 80, Nulls: true, Global: true, Remove: true},
		{Name: "null_keys", Commits: 24, Rows: 12, Version: 2, Keys: [][]string{{"region"}, {"name"}}, Formats: parquet, Space: 90, Nulls: true, Positions: true, Slashes: true},
		{Name: "several_keys", Commits: 30, Rows: 16, Version: 2, Keys: [][]string{{"id"}, {"region", "name"}, {"day", "id"}}, Formats: parquet, Space: 150, Nulls: true, Rename: &name, Widen: true},
		{Name: "dropped_key", Commits: 24, Rows: 12, Version: 2, Keys: [][]string{{"id"}, {"day", "id"}, {"day"}, {"amount"}}, Formats: parquet, Space: 100, Nulls: true, Widen: true, Drop: true},
		{Name: "nested_keys", Commits: 24, Rows: 12, Version: 2, Keys: [][]string{{"who.num"}, {"who.num", "who.tag"}}, Formats: mixed, Space: 100, Nulls: true},
		{Name: "avro_files", Commits: 24, Rows: 12, Version: 2, Keys: [][]string{{"id"}}, Partition: "bucket", Formats: []string{"avro"}, Space: 100, Nulls: true, Positions: true, Twice: true},
		{Name: "twice_in_a_commit", Commits: 24, Rows: 12, Version: 2, Keys: [][]string{{"id"}}, Formats: parquet, Space: 60, Twice: true},
		{Name: "vectors", Commits: 40, Rows: 16, Version: 3, Keys: [][]string{{"id"}, {"region", "name"}}, Partition: "region", Formats: mixed, Space: 150, Nulls: true, Twice: true, Positions: true, Widen: true},
		{Name: "vectors_from_v2", Commits: 40, Rows: 16, Version: 2, Upgrade: 3, Keys: [][]string{{"id"}}, Evolve: []string{"bucket"}, Formats: parquet, Space: 100, Nulls: true, Twice: true, Positions: true, Global: true, Remove: true},
	}
	for i := range all {
		all[i].Seed = seed + int64(i)
		if all[i].Evolve == nil {
			all[i].Evolve = []string{}
		}
	}
	return all
}

// randomShapes draws tables.
func randomShapes(seed int64, n int) []shape {
	r := rand.New(rand.NewPCG(uint64(seed), 0))
	var drawn []shape
	for i := range n {
		drawn = append(drawn, randomShape(r, i))
	}
	return drawn
}

// randomShape draws a table that nobody has thought of.
func randomShape(r *rand.Rand, n int) shape {
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	yes := func() bool { return r.IntN(2) == 0 }
	s := shape{
		Name: fmt.Sprintf("random_%d", n), Seed: r.Int64N(1 << 40), Commits: 12 + r.IntN(20), Rows: 4 + r.IntN(20), Version: 2 + r.IntN(2),
		Partition: pick("", "", "region", "bucket", "region,day"), Evolve: []string{}, Space: 20 + r.IntN(150),
		Formats: [][]string{{"parquet"}, {"avro"}, {"parquet", "avro"}}[r.IntN(3)],
		Nulls:   yes(), Twice: yes(), Positions: yes(), Remove: yes(), Widen: yes(),
	}
	if s.Version == 2 && yes() {
		s.Upgrade = 3
	}
	for range 1 + r.IntN(3) {
		s.Keys = append(s.Keys, [][]string{{"id"}, {"region"}, {"region", "name"}, {"who.num"}, {"day", "id"}, {"amount"}, {"seen"}, {"id", "who.tag"}}[r.IntN(8)])
	}
	if yes() {
		if next := pick("region", "bucket", "day"); next != s.Partition {
			s.Evolve = append(s.Evolve, next)
			s.Global = s.Partition == ""
		}
	}
	// A column that partitions the table cannot be dropped, and a set of keys must be left.
	left := slices.ContainsFunc(s.Keys, func(set []string) bool { return !slices.Contains(set, "day") })
	if left && !strings.Contains(s.Partition, "day") && !slices.Contains(s.Evolve, "day") {
		s.Drop = yes()
	}
	if name := pick("id", "name", "region", ""); name != "" {
		s.Rename = &name
	}
	return s
}

// next is what happens to the table after its first history.
func (s shape) next() shape {
	s.Seed += 1000
	s.Commits = 8
	s.Upgrade, s.Evolve, s.Rename, s.Widen, s.Drop = 0, []string{}, nil, false, false
	return s
}
