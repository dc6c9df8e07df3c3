package route

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

func ring(t *testing.T, names ...string) *Rendezvous {
	t.Helper()
	var out []Replica
	for _, n := range names {
		out = append(out, Replica{Name: n, Client: materializerv1.NewMaterializerServiceClient(nil)})
	}
	r, err := NewRendezvous(out)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func file(partition int, start int64) objectname.DataFile {
	return objectname.DataFile{
		Table: objectname.Table{Name: "orders", Epoch: "abcdefghijklmnop"}, View: objectname.Current,
		Partition: kafkapos.Partition(partition), Range: kafkapos.Range{Start: kafkapos.Offset(start), End: kafkapos.Offset(start + 1)},
	}
}

func TestSharesAreEvenAndStable(t *testing.T) {
	names := []string{"m0", "m1", "m2", "m3", "m4"}
	all, fewer := ring(t, names...), ring(t, "m0", "m1", "m3", "m4")
	shuffled := ring(t, "m3", "m0", "m4", "m2", "m1")
	share := map[string]int{}
	const files = 5000
	for i := range files {
		f := file(i%50, int64(i/50)<<20)
		name := all.replicas[all.choose(f)].Name
		share[name]++
		if got := shuffled.replicas[shuffled.choose(f)].Name; got != name {
			t.Fatalf("file %d: %s, in another order %s", i, name, got)
		}
		if got := fewer.replicas[fewer.choose(f)].Name; name != "m2" && got != name {
			t.Fatalf("file %d moved from %s to %s when m2 left", i, name, got)
		}
	}
	for _, n := range names {
		if share[n] < files/5*8/10 || share[n] > files/5*12/10 {
			t.Errorf("%s has %d of %d", n, share[n], files)
		}
	}
}

// Editions, schemas and ends change the name of a file and not its place.
func TestAChunkStaysTogether(t *testing.T) {
	r := ring(t, "m0", "m1", "m2")
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 200 {
		a := file(i, int64(random.IntN(1000))<<14)
		b := a
		b.Edition, b.FileSchema, b.Size, b.Range.End = 7, "abcdefghij", 99, a.Range.End+5000
		if r.choose(a) != r.choose(b) {
			t.Fatalf("%+v and %+v part", a, b)
		}
	}
}

func TestReplicasAreChecked(t *testing.T) {
	c := materializerv1.NewMaterializerServiceClient(nil)
	for _, list := range [][]Replica{nil, {{Name: "a"}}, {{Name: "a", Client: c}, {Name: "a", Client: c}}} {
		if _, err := NewRendezvous(list); err == nil {
			t.Error(fmt.Sprint(list), "accepted")
		}
	}
}
