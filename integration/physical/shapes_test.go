package physical

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
	Widen     bool       `json:"widen"`
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
		{Name: "null_keys", Commits: 24, Rows: 12, Version: 2, Keys: [][]string{{"region"}, {"name"}}, Formats: parquet, Space: 90, Nulls: true, Positions: true},
		{Name: "several_keys", Commits: 30, Rows: 16, Version: 2, Keys: [][]string{{"id"}, {"region", "name"}, {"day", "id"}}, Formats: parquet, Space: 150, Nulls: true, Rename: &name, Widen: true},
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

// neverPartitioned tells whether all specs of the table are unpartitioned: Spark's metadata tables have no column
// "partition" then.
func (s shape) neverPartitioned() bool { return s.Partition == "" && len(s.Evolve) == 0 }
