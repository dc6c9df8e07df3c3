package dedup

import (
	"strings"
	"testing"
	"time"

	"github.com/frazil-io/frazil/libs/fsys"
	"github.com/frazil-io/frazil/libs/kafkapos"
)

// A run that takes longer to be made again than unnamed things are left alone is made all the same: its parts are not
// collected from under it, and are gone when it is there.
func TestPartsOfARunAreNotCollectedWhileItIsMade(t *testing.T) {
	w := newWorld(t, 1)
	for range 7 {
		w.topic.append(0, put(1, 2, 3, 4, 5, 6, 7, 8, 9)...)
	}
	w.advance()
	s := w.rest()
	s.runs = nil
	s.awake(w, s.store(t))
	w.disk = fsys.NewMem()
	w.restart()
	w.topic.append(0, put(1, 2)...)
	w.topic.scan = func(kafkapos.Range) {
		w.sleep(2 * time.Hour)
		if err := w.garbage.Collect(t.Context()); err != nil {
			t.Error(err)
		}
	}
	st := w.advance()
	w.topic.scan = nil
	w.check(st, last(st))
	files, err := w.disk.List("runs/" + st.GetStateEpoch() + "-0")
	if err != nil || len(files) == 0 {
		t.Fatalf("run files %v: %v", files, err)
	}
	for _, f := range files {
		if strings.Contains(f.Name, "part") {
			t.Errorf("%s is left over", f.Name)
		}
	}
}
