package replicas

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/frazil-io/frazil/libs/fault"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

func TestScansAndReadsMeetAndAReplicaTakesOnlyItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld("10.0.0.1", "10.0.0.2", "10.0.0.3")
		s, stop := running(t, w, "dns:///m:7071")
		seed := rand.Uint64()
		r := rand.New(rand.NewPCG(seed, 0))
		before := map[int64]string{}
		share := map[string]int{}
		for range 500 {
			chunkLog2 := 14 + r.IntN(9)
			fileStart := r.Int64N(1<<40) >> chunkLog2 << chunkLog2
			increment := fileStart + r.Int64N(1<<chunkLog2)
			at := read(t, s, fileStart)
			w.reached()
			scan(t, s, increment)
			if got := w.reached(); len(got) != 1 || got[0] != at {
				t.Fatalf("seed %d: file at %d is read from %s, the scan of %d goes to %s", seed, fileStart, at, increment, got)
			}
			before[fileStart] = at
			share[at]++
		}
		for a, n := range share {
			if n < 80 {
				t.Errorf("%s got %d of 500", a, n)
			}
		}

		w.set(nil, "10.0.0.3", "10.0.0.1")
		<-time.After(1500 * time.Millisecond)
		synctest.Wait()
		for start, at := range before {
			now := read(t, s, start)
			if at != "10.0.0.2:7071" && now != at || now == "10.0.0.2:7071" {
				t.Errorf("the region of %d moved from %s to %s", start, at, now)
			}
		}
		if len(w.open) != 2 {
			t.Errorf("open connections: %v", w.open)
		}

		w.set(errors.New("no such host"))
		<-time.After(2 * time.Second)
		synctest.Wait()
		if len(w.open) != 2 {
			t.Errorf("a failed look-up changed the set: %v", w.open)
		}
		stop()
		if err := table(t.Context(), s, "e"); !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("an empty set: %v", err)
		}
	})
}

func TestAList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		_, stop := running(t, w, "a:1, b:2,a:1")
		if fmt.Sprint(w.open) != "map[a:1:true b:2:true]" {
			t.Errorf("connections %v", w.open)
		}
		stop()
	})
	if _, err := New(config("nowhere"), Deps{}); err == nil {
		t.Error("an address without a port is accepted")
	}
}

// first answers the replica of two that an epoch's calls go to first, and the other one.
func first(t *testing.T, s *Set, w *world) (first, second string) {
	t.Helper()
	err := table(t.Context(), s, "e")
	w.reached()
	if err.Error() == "a:1" {
		return "a:1", "b:1"
	}
	return "b:1", "a:1"
}

func TestACallMovesOn(t *testing.T) {
	for name, c := range map[string]struct {
		b     behaviour
		moves bool
		least time.Duration // that the call takes until it arrives
	}{
		"from a closed port":      {gone, true, 0},
		"from one that hangs":     {hangs, true, DefaultProbeTimeout},
		"but not from an answer":  {refuses, false, 0},
		"but not from a last one": {serves, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s, stop := running(t, w, "a:1,b:1")
				one, two := first(t, s, w)
				w.make(c.b, one)
				began := time.Now()
				err := table(t.Context(), s, "e")
				took := time.Since(began)
				if moved := err.Error() == two; moved != c.moves {
					t.Errorf("got %v from %v, moved %v", err, w.reached(), moved)
				}
				if took < c.least-DefaultProbeEvery || took > c.least+DefaultProbeEvery {
					t.Errorf("took %s", took)
				}
				if !c.moves {
					stop()
					return
				}
				// Once it is known to be away, nobody tries it any more; once it is back, it has its share.
				<-time.After(DefaultProbeEvery + DefaultProbeTimeout)
				w.reached()
				if err := table(t.Context(), s, "e"); err.Error() != two || len(w.reached()) != 1 {
					t.Errorf("afterwards: %v", err)
				}
				w.make(serves, one)
				<-time.After(DefaultProbeEvery + DefaultProbeTimeout)
				if err := table(t.Context(), s, "e"); err.Error() != one {
					t.Errorf("when it is back: %v", err)
				}
				stop()
			})
		})
	}
}

func TestOneThatLeavesGetsNoNewCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := running(t, w, "a:1,b:1")
		one, two := first(t, s, w)
		w.make(drains, one)
		<-time.After(DefaultProbeEvery)
		synctest.Wait()
		if err := table(t.Context(), s, "e"); err.Error() != two {
			t.Errorf("got %v", err)
		}
		w.make(gone, two)
		if err := table(t.Context(), s, "e"); err.Error() != one {
			t.Errorf("when nobody else is there: %v", err)
		}
		stop()
	})
}

func TestACallWaitsForAReplicaToComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.make(gone, "a:1", "b:1")
		s, stop := running(t, w, "a:1,b:1")
		time.AfterFunc(2*time.Second, func() { w.make(serves, "b:1") })
		if err := table(t.Context(), s, "e"); err.Error() != "b:1" {
			t.Errorf("got %v", err)
		}
		w.make(gone, "b:1")
		began := time.Now()
		if err := table(t.Context(), s, "e"); !errors.Is(err, fault.ErrUnavailable) || time.Since(began) < DefaultPatience {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := table(ctx, s, "e"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own end: %v", err)
		}
		stop()
	})
}

func TestAStreamMovesOnBeforeItsFirstMessage(t *testing.T) {
	for name, c := range map[string]struct {
		b     behaviour
		moves bool
	}{
		"from a closed port":           {gone, true},
		"from one that hangs":          {hangs, true},
		"from a broken connection":     {fallsOff, true},
		"but not from an answer":       {refuses, false},
		"but not once it has begun":    {breaks, false},
		"and stays where it is served": {serves, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				s, stop := running(t, w, "a:1,b:1")
				one := read(t, s, 0)
				w.make(c.b, one)
				stream, err := materializerv1.NewMaterializerServiceClient(s).ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: key(0)})
				if err != nil {
					t.Fatal(err)
				}
				resp, err := stream.Recv()
				switch {
				case c.moves && (err != nil || string(resp.GetData()) == one):
					t.Errorf("got %q, %v", resp.GetData(), err)
				case c.b == refuses && (!errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), one)):
					t.Errorf("got %v", err)
				case c.b == breaks || c.b == serves:
					if err != nil || string(resp.GetData()) != one {
						t.Errorf("got %q, %v", resp.GetData(), err)
					}
				}
				if _, err := stream.Recv(); c.b == breaks && !errors.Is(err, fault.ErrUnavailable) || c.moves && !errors.Is(err, io.EOF) {
					t.Errorf("then %v", err)
				}
				stop()
			})
		})
	}
}

func TestAHeaderMovesOnToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := running(t, w, "a:1,b:1")
		one := read(t, s, 0)
		w.make(fallsOff, one)
		stream, err := materializerv1.NewMaterializerServiceClient(s).ReadData(t.Context(), &materializerv1.ReadDataRequest{ObjectKey: key(0)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Header(); err != nil {
			t.Errorf("got %v", err)
		}
		stop()
	})
}

// A call to a replica that goes down while it is answering ends at once, also where no other replica is.
func TestAHangEndsWithTheReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		s, stop := running(t, w, "a:1")
		w.make(hangs, "a:1")
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		time.AfterFunc(time.Minute, func() { w.make(serves, "a:1") })
		began := time.Now()
		err := table(ctx, s, "e")
		if took := time.Since(began); took > time.Minute+DefaultPatience {
			t.Errorf("%v after %s", err, took)
		}
		stop()
	})
}
