package replicas

import (
	"errors"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/inprocess"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore/redistest"
	"github.com/frazil-io/frazil/services/app"
	"github.com/frazil-io/frazil/services/dedup"
)

// shop is the product in one process with its state in a Redis that the test commands.
type shop struct {
	*inprocess.Frazil
	*fold

	t     *testing.T
	redis *redistest.Server
}

func newShop(t *testing.T) *shop {
	t.Helper()
	harness.Scale(t)
	s := &shop{Frazil: inprocess.New(t), t: t, redis: redistest.Start(t)}
	s.fold = newFold(t, 2, 1)
	_, err := kadm.NewClient(s.Producer).CreateTopic(t.Context(), 2, 1, nil, topic)
	s.must(err)
	s.Config.State.Kind = app.StateRedis
	s.Config.State.Redis.Addresses = []string{s.redis.Addr}
	s.Config.Tables = map[string]app.TableConfig{topic: {Dedup: dedup.TableConfig{ChunkLog2: 4, BlockLog2: 2}}}
	s.Start()
	return s
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *shop) produce(n int) { s.fold.produce(s.Producer, n) }

// load loads the table until it shows everything, and judges its rows.
func (s *shop) load() *readback.Table {
	s.t.Helper()
	var t *readback.Table
	s.Until("load", func() (err error) {
		if t, err = s.Catalog("v3").Load(s.t.Context(), table); err == nil {
			_, err = s.shows(t)
		}
		return err
	})
	rows, err := t.Rows(s.t.Context(), 0)
	s.must(err)
	s.judge(rows, s.ends)
	return t
}

// version is the record's version, which every metadata location carries.
func version(t *testing.T, tb *readback.Table) uint64 {
	t.Helper()
	m := regexp.MustCompile(`/([0-9]+)-[0-9a-f-]+\.metadata\.json$`).FindStringSubmatch(tb.MetadataLocation)
	if m == nil {
		t.Fatalf("metadata location %s", tb.MetadataLocation)
	}
	v, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// gone checks that a table of a lost state is refused in words, and that none of its names was given to other bytes.
func (s *shop) gone(old *readback.Table) {
	s.t.Helper()
	_, err := old.Rows(s.t.Context(), 0)
	var status *readback.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusNotFound {
		s.t.Fatalf("a table of the lost state reads as %v, want 404", err)
	}
}

// A Redis that comes back older than what was answered, or empty, is found out by the version: the table gets a new
// state epoch, made again from Kafka.
func TestARolledBackRedisIsANewStateEpoch(t *testing.T) {
	for name, rollBack := range map[string]func(*shop, redistest.Image){
		"emptied":          func(s *shop, _ redistest.Image) { s.redis.Load(nil) },
		"one second older": func(s *shop, image redistest.Image) { s.redis.Load(image) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newShop(t)
			s.produce(60)
			s.load()
			image := s.redis.Dump()
			s.produce(30)
			before := s.load()
			rollBack(s, image)
			s.produce(1)
			after := s.load()
			if after.Metadata.TableUUID == before.Metadata.TableUUID || after.Metadata.Location == before.Metadata.Location {
				t.Errorf("the state epoch lives on: %s", after.Metadata.Location)
			}
			if v, was := version(t, after), version(t, before); v <= was {
				t.Errorf("version %d after %d", v, was)
			}
			s.gone(before)
			s.produce(40)
			s.load()
		})
	}
}

// A topic at rest is looked after too: nobody has to write for the loss to be noticed.
func TestALossIsNoticedAtRest(t *testing.T) {
	s := newShop(t)
	s.produce(60)
	before := s.load()
	s.redis.Load(nil)
	s.Until("a new state epoch", func() error {
		now, err := s.Catalog("v3").Load(t.Context(), table)
		if err == nil && now.Metadata.TableUUID == before.Metadata.TableUUID {
			err = errors.New("the lost one is still answered")
		}
		return err
	})
	s.load()
	s.gone(before)
}

// Nobody remembers the version: every process began anew when Redis did. What clients hold is right or refused, and
// no name is given to other bytes.
func TestARollbackThatNobodyRemembers(t *testing.T) {
	s := newShop(t)
	s.produce(60)
	s.load()
	image := s.redis.Dump()
	s.produce(30)
	held := s.load()
	want, err := held.Rows(t.Context(), 0)
	s.must(err)
	objects := s.objects(held)
	ends := slices.Clone(s.ends)
	s.Stop()
	s.redis.Load(image)
	s.Start()
	for range 4 {
		s.produce(3)
		s.load()
		s.sameOrRefused(held, objects)
	}
	rows, err := held.Rows(t.Context(), 0)
	var status *readback.StatusError
	switch {
	case err == nil:
		s.judge(rows, ends)
		if len(rows) != len(want) {
			t.Errorf("%d rows, were %d", len(rows), len(want))
		}
	case !errors.As(err, &status) || status.Code != http.StatusNotFound:
		t.Errorf("what the client held reads as %v", err)
	}
}

// objects answers the bytes of everything that a table names.
func (s *shop) objects(tb *readback.Table) map[string]string {
	s.t.Helper()
	out := map[string]string{}
	read := func(uri string) {
		b, err := tb.Object(s.t.Context(), uri, "")
		s.must(err)
		out[uri] = string(b)
	}
	read(tb.MetadataLocation)
	snap, err := tb.Snapshot(0)
	s.must(err)
	read(snap.ManifestList)
	files, err := tb.Files(s.t.Context(), 0)
	s.must(err)
	for _, f := range files {
		read(f.Path)
		if f.Deletes != nil {
			read(f.Deletes.Path)
		}
	}
	return out
}

// sameOrRefused checks that every name still stands for its bytes or for nothing.
func (s *shop) sameOrRefused(tb *readback.Table, objects map[string]string) {
	s.t.Helper()
	for uri, want := range objects {
		b, err := tb.Object(s.t.Context(), uri, "")
		var status *readback.StatusError
		if errors.As(err, &status) && status.Code == http.StatusNotFound {
			continue
		}
		s.must(err)
		if string(b) != want {
			s.t.Errorf("%s has other bytes: %d, were %d", uri, len(b), len(want))
		}
	}
}

// While Redis is away, what needs it is refused in words; when it is back, everything goes on by itself.
func TestRedisAwayAndBack(t *testing.T) {
	s := newShop(t)
	s.produce(60)
	before := s.load()
	s.redis.Kill()
	_, err := before.Rows(t.Context(), 0)
	var status *readback.StatusError
	if err != nil && (!errors.As(err, &status) || status.Code != http.StatusServiceUnavailable) {
		t.Errorf("without Redis a read answers %v, want rows or 503", err)
	}
	s.produce(10)
	if tb, err := s.Catalog("v3").Load(t.Context(), table); err != nil {
		t.Errorf("a published cut is not served without Redis: %v", err)
	} else if tb.Metadata.Properties["frazil.stale-since"] == "" {
		t.Errorf("it does not say that it is behind: %v", tb.Metadata.Properties)
	}
	s.redis.Start()
	after := s.load()
	if after.Metadata.TableUUID != before.Metadata.TableUUID {
		t.Errorf("a new state epoch, though nothing was lost")
	}
	s.redis.Pause()
	resumed := time.AfterFunc(2*time.Second, s.redis.Continue)
	defer resumed.Stop()
	s.produce(10)
	s.load()
}
