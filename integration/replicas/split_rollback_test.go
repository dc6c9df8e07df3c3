package replicas

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/frazil-io/frazil/integration/harness"
	"github.com/frazil-io/frazil/integration/readback"
	"github.com/frazil-io/frazil/libs/chainstore/redisstore/redistest"
)

// A Redis that fails over to a replica that lags, or that comes back empty, under a running installation: whoever
// remembers a newer version proves it, whether that is a dedup, a catalog, or only a reader with the name of a metadata
// file. The table is made again from Kafka under another state epoch, and no name of the lost one is answered.
func TestARolledBackRedisUnderARunningInstallation(t *testing.T) {
	for _, c := range []struct {
		name    string
		emptied bool
		restart []string // services whose processes forget, as all are killed with Redis
		brings  bool     // a reader asks for the metadata file that it holds
	}{
		{name: "emptied", emptied: true},
		{name: "older"},
		{name: "older and only catalogs remember", restart: []string{"dedup"}},
		{name: "older and only a reader remembers", restart: services, brings: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := newInstallation(t, 4, 2)
			f := newFold(t, 2, 12)
			_, err := kadm.NewClient(in.producer).CreateTopic(t.Context(), 2, 1, nil, topic)
			in.must(err)
			f.produce(in.producer, 60)
			judgeEnd(t, in, f)
			image := redistest.Image(nil)
			if !c.emptied {
				image = in.redis.Dump()
			}
			for range 4 {
				f.produce(in.producer, 10)
				judgeEnd(t, in, f)
			}
			held, err := in.catalog("v3").Load(t.Context(), table)
			in.must(err)
			in.killAll(c.restart)
			in.redis.Load(image)
			in.startAll(c.restart)
			if c.brings {
				_, err := held.Object(t.Context(), held.MetadataLocation, "")
				if err == nil || !strings.Contains(err.Error(), "rolled back") {
					t.Errorf("a metadata file of a lost version: %v", err)
				}
			}
			harness.Eventually(t, "a new state epoch", func() error {
				now, err := in.catalog("v3").Load(t.Context(), table)
				if err == nil && now.Metadata.TableUUID == held.Metadata.TableUUID {
					err = errors.New("the lost one is still answered")
				}
				return err
			})
			f.produce(in.producer, 10)
			judgeEnd(t, in, f)
			now, err := in.catalog("v3").Load(t.Context(), table)
			in.must(err)
			if v, was := version(t, now), version(t, held); v <= was {
				t.Errorf("version %d after %d", v, was)
			}
			_, err = held.Rows(t.Context(), 0)
			var status *readback.StatusError
			if !errors.As(err, &status) || status.Code != http.StatusNotFound {
				t.Errorf("a table of the lost state reads as %v, want 404", err)
			}
		})
	}
}

func (in *installation) killAll(names []string) {
	for _, name := range names {
		for _, p := range in.of(name) {
			p.kill()
		}
	}
}

func (in *installation) startAll(names []string) {
	in.t.Helper()
	for _, name := range names {
		for _, p := range in.of(name) {
			p.start()
		}
	}
	for _, name := range names {
		for _, p := range in.of(name) {
			p.awaitReady()
		}
	}
}
