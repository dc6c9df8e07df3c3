package catalog

import (
	"context"
	"errors"
	"testing"
	"time"

	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
)

// asked is a door that tells when it is knocked at, once it is watched.
type asked struct {
	kafkalog.Metadata
	knock chan struct{}
}

func (a *asked) Topics(ctx context.Context) ([]kafkalog.Topic, error) {
	a.knock <- struct{}{}
	return a.Metadata.Topics(ctx)
}

// ClusterID is what a look at a topic asks first.
func (a *asked) ClusterID(ctx context.Context) (string, error) {
	a.knock <- struct{}{}
	return a.Metadata.ClusterID(ctx)
}

// holding is a catalog without a broker that holds loads for an hour, and a load under way.
type holding struct {
	*world
	door   *asked
	loaded chan error
}

func hold(t *testing.T, prepare func(*holding)) *holding {
	t.Helper()
	w := newWorld(t)
	w.topic("orders", 1, 30)
	h := &holding{world: w, door: &asked{w.kafka, make(chan struct{}, 100)}, loaded: make(chan error, 1)}
	w.door = h.door
	w.Service = w.replica(func(c *Config) { c.Freshness.LoadWait, c.Waiting = time.Hour, 1 })
	prepare(h)
	w.kafka.SetDown(true)
	for len(h.door.knock) > 0 {
		<-h.door.knock
	}
	go func() {
		_, err := w.tryLoad(&catalogv1.LoadTableRequest{})
		h.loaded <- err
	}()
	for range 2 {
		select {
		case <-h.door.knock:
		case err := <-h.loaded:
			t.Fatalf("the load did not wait: %v", err)
		}
	}
	return h
}

// A load for which there is no cut yet waits for a broker to answer: for the list of topics, and for the topic.
func TestFirstLoadWaitsForABroker(t *testing.T) {
	for name, prepare := range map[string]func(*holding){
		"no list of topics": func(*holding) {},
		"a listed topic": func(h *holding) {
			if _, err := h.TableExists(context.Background(), &catalogv1.TableExistsRequest{Namespace: "kafka", Table: "orders"}); err != nil {
				t.Fatal(err)
			}
		},
	} {
		h := hold(t, prepare)
		h.kafka.SetDown(false)
		if err := <-h.loaded; err != nil {
			t.Errorf("%s: a load with a broker that came back: %v", name, err)
		}
	}
}

// As many loads are held as may wait; the next one is told to come again.
func TestHeldLoadsAreBounded(t *testing.T) {
	h := hold(t, func(*holding) {})
	if _, err := h.tryLoad(&catalogv1.LoadTableRequest{}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("one load more than may wait: %v", err)
	}
	h.kafka.SetDown(false)
	if err := <-h.loaded; err != nil {
		t.Errorf("the load that was held: %v", err)
	}
}

// The end of the process does not wait for loads that are held.
func TestTheEndReleasesHeldLoads(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	ran := make(chan error, 1)
	h := hold(t, func(h *holding) {
		go func() { ran <- h.Service.Run(ctx) }()
		<-h.Ready()
	})
	cancel()
	if err := <-h.loaded; !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a held load at the end: %v", err)
	}
	if err := <-ran; err != nil {
		t.Error(err)
	}
}

// Who hangs up is not held.
func TestHeldLoadEndsWithItsCaller(t *testing.T) {
	w := newWorld(t, func(c *Config) { c.Freshness.LoadWait = time.Hour })
	w.kafka.SetDown(true)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := w.LoadTable(ctx, &catalogv1.LoadTableRequest{Namespace: "kafka", Table: "orders"}); !errors.Is(err, context.Canceled) {
		t.Errorf("load: %v", err)
	}
}
