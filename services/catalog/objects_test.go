package catalog

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
)

func (w *world) list(token string, size int32) *catalogv1.ListTablesResponse {
	w.Helper()
	resp, err := w.ListTables(context.Background(), &catalogv1.ListTablesRequest{Namespace: "kafka", PageToken: token, PageSize: size})
	if err != nil {
		w.Fatal(err)
	}
	return resp
}

func TestListing(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Topics = TopicsConfig{Exclude: []string{"tmp-*"}}
		c.Tables = map[string]TableConfig{
			"secret": {Exclude: true}, "Weird.Name": {Name: "plain"}, "kept-changelog": {},
		}
	})
	for _, topic := range []string{"orders", "a-b", "a.b", "Weird.Name", "secret", "tmp-1", "__consumer_offsets", "app-changelog",
		"kept-changelog", "hidden", "orders__errors"} {
		w.topic(topic, 1, 1)
	}
	if err := w.kafka.SetInternal("hidden", true); err != nil {
		t.Fatal(err)
	}
	var names []string
	for token := ""; ; {
		page := w.list(token, 2)
		for _, n := range page.GetTables() {
			names = append(names, n.GetTable())
		}
		if token = page.GetNextPageToken(); token == "" {
			break
		}
	}
	if want := []string{"a_b", "kept_changelog", "orders", "orders__errors", "plain"}; !slices.Equal(names, want) {
		t.Errorf("tables %v, want %v", names, want)
	}
	for table, says := range map[string]string{"a_b": "a.b", "orders__errors": `"orders"`} {
		if _, err := w.tryLoad(&catalogv1.LoadTableRequest{Table: table}); !errors.Is(err, fault.ErrInvalid) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", table, err)
		}
		if _, err := w.TableExists(context.Background(), &catalogv1.TableExistsRequest{Namespace: "kafka", Table: table}); err != nil {
			t.Errorf("%s does not exist: %v", table, err)
		}
	}
	if got := w.load(&catalogv1.LoadTableRequest{Table: "plain"}); got.GetTopic() != "Weird.Name" || !strings.Contains(got.GetLocation(), "/plain-") {
		t.Errorf("topic %s at %s", got.GetTopic(), got.GetLocation())
	}
	if _, err := w.ListTables(context.Background(), &catalogv1.ListTablesRequest{Namespace: "x"}); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("another namespace: %v", err)
	}
	if _, err := w.ListTables(context.Background(), &catalogv1.ListTablesRequest{Namespace: "kafka", PageSize: -1}); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("negative page: %v", err)
	}
}

func TestTableExistsAsSoonAsItsTopicDoes(t *testing.T) {
	w := newWorld(t)
	w.list("", 0)
	w.topic("orders", 1, 1)
	w.clock.advance(Default().Freshness.OffsetsTTL)
	w.load(&catalogv1.LoadTableRequest{})
}

func TestListingWhileBrokersAreAway(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 1)
	w.list("", 0)
	w.kafka.SetDown(true)
	w.tick()
	if got := w.list("", 0); len(got.GetTables()) != 1 {
		t.Errorf("listed %v", got)
	}
}

func TestResolveEpoch(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 1)
	epoch := w.load(&catalogv1.LoadTableRequest{}).GetStateEpoch()
	got, err := w.ResolveEpoch(context.Background(), &catalogv1.ResolveEpochRequest{StateEpoch: epoch})
	if err != nil || got.GetTable() != "orders" || got.GetTopic() != "orders" || len(got.GetCheckKey()) != 16 {
		t.Errorf("resolved %v, %v", got, err)
	}
	for _, unknown := range []string{"", "nope", "../../x", strings.Repeat("a", 16)} {
		if _, err := w.ResolveEpoch(context.Background(), &catalogv1.ResolveEpochRequest{StateEpoch: unknown}); !errors.Is(err, fault.ErrNotFound) {
			t.Errorf("%q: %v", unknown, err)
		}
	}
}

// A withdrawal gives a kept snapshot other groups: the old list is given up and the new one has another name.
func TestWithdrawal(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 130)
	old := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson()).Snapshots[0]
	w.dedup.set(func(f *fakeDedup) {
		epoch, other := f.current["orders"], strings.Repeat("c", 26)
		f.change(epoch, func(s *dedupv1.TableState) {
			f.groups[epoch+"/"+other] = f.groups[epoch+"/"+s.Snapshots[0].Groups[0].GetName()]
			s.Snapshots[0].Groups[0].Name = other
		})
	})
	w.append("orders", 1)
	w.tick()
	now := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson()).Snapshots[0]
	if now.ID != old.ID || now.ManifestList == old.ManifestList {
		t.Errorf("snapshot %d, list %s", now.ID, now.ManifestList)
	}
	if got := readList(t, readObject(t, w.Service, now.ManifestList)); !strings.Contains(got[0].FilePath(), "/cccccc") {
		t.Errorf("the new list names %s", got[0].FilePath())
	}
	if _, err := tryRead(w.replica(), old.ManifestList); !errors.Is(err, fault.ErrRetired) {
		t.Errorf("withdrawn list: %v", err)
	}
}

func TestForeignNames(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 130)
	location := w.load(&catalogv1.LoadTableRequest{}).GetMetadataLocation()
	m := parse(t, readObject(t, w.Service, location))
	manifest := readList(t, readObject(t, w.Service, m.Snapshots[0].ManifestList))[0].FilePath()
	last := func(uri string) string { return uri[strings.LastIndexByte(uri, '/')+1:] }
	in := func(file string) string { return location[:strings.LastIndexByte(location, '/')+1] + file }
	version, rest, _ := strings.Cut(last(location), "-")
	for name, c := range map[string]struct {
		uri  string
		want error
	}{
		"no name":             {in("x.avro"), fault.ErrNotFound},
		"other uuid":          {in(version + "-" + "0" + rest[1:]), fault.ErrRetired},
		"future version":      {in("99-" + rest), fault.ErrRetired},
		"version 0":           {in("0-" + rest), fault.ErrNotFound},
		"unknown snapshot":    {in("snap-12-aaaaaaaaaaaaaaaa.avro"), fault.ErrRetired},
		"huge snapshot":       {in("snap-9999999999999999999-aaaaaaaaaaaaaaaa.avro"), fault.ErrNotFound},
		"unknown group":       {in("a" + strings.Repeat("b", 25) + last(manifest)[26:]), fault.ErrNotFound},
		"unknown schema":      {strings.Replace(manifest, "-s0-", "-s7-", 1), fault.ErrNotFound},
		"other writer":        {strings.Replace(manifest, "-w1-", "-w9-", 1), fault.ErrRetired},
		"other table's name":  {strings.Replace(location, "orders-", "others-", 1), fault.ErrNotFound},
		"other dialect":       {strings.Replace(location, "/v2/", "/v3/", 1), fault.ErrRetired},
		"other view":          {strings.Replace(location, "/current/", "/changes/", 1), fault.ErrNotFound},
		"other table's list":  {strings.Replace(m.Snapshots[0].ManifestList, "orders-", "others-", 1), fault.ErrNotFound},
		"other table's group": {strings.Replace(manifest, "orders-", "others-", 1), fault.ErrNotFound},
	} {
		if c.uri == location || c.uri == manifest {
			t.Fatalf("%s: nothing was changed", name)
		}
		if data, err := tryRead(w.replica(), c.uri); !errors.Is(err, c.want) {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
}

// A group without deletes has one manifest, and nobody can read another.
func TestGroupWithoutDeletes(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 3)
	m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	lines := readList(t, readObject(t, w.Service, m.Snapshots[0].ManifestList))
	if len(lines) != 1 {
		t.Fatalf("%d manifests", len(lines))
	}
	if _, err := tryRead(w.Service, strings.Replace(lines[0].FilePath(), "-m0.avro", "-m1.avro", 1)); !errors.Is(err, fault.ErrNotFound) {
		t.Errorf("delete manifest: %v", err)
	}
}

// What would make a reader see wrong rows is never rendered.
func TestContradictionsAreCorrupt(t *testing.T) {
	for name, plant := range map[string]func(e *dedupv1.ManifestEntry){
		"size":          func(e *dedupv1.ManifestEntry) { e.FileSizeBytes++ },
		"range":         func(e *dedupv1.ManifestEntry) { e.End++ },
		"partition":     func(e *dedupv1.ManifestEntry) { e.Partition++ },
		"more rows":     func(e *dedupv1.ManifestEntry) { e.Rows = 101 },
		"another count": func(e *dedupv1.ManifestEntry) { e.Rows-- },
		"no data file":  func(e *dedupv1.ManifestEntry) { e.DataKey = strings.Replace(e.DataKey, "orders", "others", 1) },
		"containers":    func(e *dedupv1.ManifestEntry) { e.Deletes.ContainerCardinalities[0]++ },
		"too many deletes": func(e *dedupv1.ManifestEntry) {
			e.Deletes.Cardinality, e.Deletes.ContainerCardinalities = 100, []uint32{100}
		},
		"no deletes left": func(e *dedupv1.ManifestEntry) { e.Deletes = nil },
	} {
		w := newWorld(t)
		w.topic("orders", 1, 100)
		m := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
		w.dedup.set(func(f *fakeDedup) {
			for _, g := range f.groups {
				plant(g.GetEntries()[0])
			}
		})
		if _, err := tryRead(w.Service, m.Snapshots[0].ManifestList); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSchemaEvolutionNamesOtherManifests(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 1, 100)
	first := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	w.dedup.set(func(f *fakeDedup) {
		f.change(f.current["orders"], func(s *dedupv1.TableState) {
			s.SchemasJson = append(s.SchemasJson, []byte(strings.Replace(fakeSchema, `"schema-id":0`, `"schema-id":1`, 1)))
			s.CurrentSchemaId = 1
			s.Snapshots = append(s.Snapshots, &dedupv1.Snapshot{
				Id: 99, ParentId: s.Snapshots[0].GetId(), TimestampMillis: s.Snapshots[0].GetTimestampMillis() + 1, SchemaId: 1,
				Cut: []*dedupv1.PartitionCut{{End: 101}}, Groups: s.Snapshots[0].GetGroups(),
			})
		})
	})
	w.append("orders", 1)
	w.tick()
	second := parse(t, w.load(&catalogv1.LoadTableRequest{}).GetMetadataJson())
	a := readList(t, readObject(t, w.Service, first.Snapshots[0].ManifestList))[0]
	b := readList(t, readObject(t, w.Service, second.Snapshots[1].ManifestList))[0]
	if a.FilePath() == b.FilePath() || !strings.Contains(b.FilePath(), "-s1-") {
		t.Errorf("manifests %s and %s", a.FilePath(), b.FilePath())
	}
	if len(readEntries(t, w.Service, a)) != len(readEntries(t, w.Service, b)) {
		t.Error("the group has other entries")
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache(10_000)
	for i := range 1000 {
		key := "e/" + strconv.Itoa(i)
		c.put(key, i, 500)
		if i > 0 && c.get("e/0") != 0 {
			t.Fatal("the most used value was pushed out")
		}
		if c.get(key) != i {
			t.Fatalf("%s is not there", key)
		}
		if _, used := c.items.Size(); used > c.limit {
			t.Fatalf("%d bytes of %d", used, c.limit)
		}
	}
	c.put("e/big", 1, 5_000)
	if c.get("e/big") != nil {
		t.Error("a value pushed out everything else")
	}
	kept, _ := c.items.Size()
	c.put("f/1", 1, 500)
	c.drop("e/")
	if n, _ := c.items.Size(); c.get("f/1") != 1 || n != 1 || kept < 10 {
		t.Errorf("%d items after drop, %d before", n, kept)
	}
	c.drop("")
	if n, used := c.items.Size(); n != 0 || used != 0 {
		t.Errorf("an empty cache holds %d values, %d bytes", n, used)
	}
}

// A cache that keeps nothing changes no answer.
func TestTinyCache(t *testing.T) {
	w := newWorld(t)
	w.topic("orders", 2, 250)
	location := w.load(&catalogv1.LoadTableRequest{}).GetMetadataLocation()
	want := walk(t, w.Service, location)
	w.cache.limit = 0
	w.cache.drop("")
	for uri, data := range walk(t, w.Service, location) {
		if string(want[uri]) != string(data) {
			t.Errorf("%s differs", uri)
		}
	}
	w.tick()
	if got := w.load(&catalogv1.LoadTableRequest{}); got.GetMetadataLocation() != location {
		t.Error("another location")
	}
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"namespace":        func(c *Config) { c.Namespace = "a.b" },
		"bucket":           func(c *Config) { c.Bucket = "" },
		"glob":             func(c *Config) { c.Topics.Include = []string{"[a"} },
		"name":             func(c *Config) { c.Tables = map[string]TableConfig{"t": {Name: "A"}} },
		"policy":           func(c *Config) { c.Tables = map[string]TableConfig{"t": {CleanupPolicy: "compact"}} },
		"duration":         func(c *Config) { c.Freshness.OffsetsTTL = 0 },
		"cache":            func(c *Config) { c.Cache.MetadataMaxBytes = 5 },
		"listed":           func(c *Config) { c.ListedSnapshots = 0 },
		"waiting":          func(c *Config) { c.Waiting = 0 },
		"freshness, kafka": func(c *Config) { c.Freshness.KafkaTimeout = -1 },
	} {
		cfg := Default()
		change(&cfg)
		if _, err := cfg.Validate(); !errors.Is(err, fault.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	cfg := Default()
	if warnings, err := cfg.Validate(); err != nil || len(warnings) != 0 {
		t.Errorf("the defaults: %v %v", warnings, err)
	}
	cfg.Freshness.LoadWait *= 10
	if warnings, err := cfg.Validate(); err != nil || len(warnings) != 1 {
		t.Errorf("a long wait: %v %v", warnings, err)
	}
}
