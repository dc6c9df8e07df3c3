package icebergcommit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/apache/iceberg-go"

	"github.com/frazil-io/frazil/libs/drain"
	"github.com/frazil-io/frazil/libs/drain/draintest"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/icebergcommit"
	"github.com/frazil-io/frazil/libs/icebergscan"
)

// stage makes a commit that removes the only equality delete of a world.
func stage(t *testing.T, w *draintest.World) (*icebergcommit.Commit, []byte, string) {
	t.Helper()
	raw, at := w.Metadata()
	meta := w.Table()
	head, err := meta.Head("main")
	if err != nil {
		t.Fatal(err)
	}
	scan, err := icebergscan.Open(t.Context(), w.Lake, meta, head)
	if err != nil {
		t.Fatal(err)
	}
	change := icebergcommit.Change{Branch: "main", Parent: head, Manifests: scan.Manifests(), Now: time.UnixMilli(1_800_000_000_000), Summary: map[string]string{"mine": "yes"}}
	for e, err := range scan.Entries(t.Context(), icebergscan.DeletesManifest, icebergscan.Want{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Content == icebergscan.EqualityDeletes {
			change.Remove = append(change.Remove, icebergcommit.Removal{Manifest: e.Manifest.Path, Path: string(e.Path), Offset: icebergscan.Absent})
		}
	}
	c, err := icebergcommit.Stage(t.Context(), w.Lake, icebergcommit.Base{Raw: raw, Meta: meta}, change)
	if err != nil {
		t.Fatal(err)
	}
	return c, raw, at
}

func orders(t *testing.T, version int) *draintest.World {
	t.Helper()
	w := draintest.New(t, version)
	w.Write("main", "append", []draintest.File{w.Data([]draintest.Row{{draintest.ID: int64(1)}}, draintest.Options{})})
	w.Write("main", "delete", []draintest.File{w.Equality([]int{draintest.ID}, []draintest.Row{{draintest.ID: int64(2)}}, draintest.Options{})})
	return w
}

func TestMetadataAfterACommit(t *testing.T) {
	for _, version := range []int{2, 3} {
		w := orders(t, version)
		w.SetProperty("write.metadata.previous-versions-max", "2")
		for range 4 { // the log is kept short
			c, raw, at := stage(t, w)
			next, err := c.Apply(raw, at)
			if err != nil {
				t.Fatal(err)
			}
			meta, err := icebergscan.ParseTable(next)
			if err != nil {
				t.Fatal(err)
			}
			head, err := meta.Head("main")
			if err != nil || head.ID != c.SnapshotID || head.SequenceNumber != meta.LastSequenceNumber || head.Operation() != "overwrite" || head.Summary["mine"] != "yes" {
				t.Errorf("version %d: head %+v, %v", version, head, err)
			}
			var text map[string]any
			if err := json.Unmarshal(next, &text); err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(text["x-unknown"]) != "map[kept:true]" {
				t.Errorf("an unknown key became %v", text["x-unknown"])
			}
			log, _ := text["metadata-log"].([]any)
			if len(log) == 0 || len(log) > 2 || !strings.Contains(fmt.Sprint(log[len(log)-1]), at) {
				t.Errorf("metadata log %v", log)
			}
			loc := icebergcommit.NextMetadata(w.Table(), at)
			w.Lake.Put(loc, next)
			if err := w.Commit(t.Context(), mustLoad(t, w), c); err != nil {
				t.Fatal(err)
			}
			w.Write("main", "delete", []draintest.File{w.Equality([]int{draintest.ID}, []draintest.Row{{draintest.ID: int64(3)}}, draintest.Options{})})
		}
	}
}

func TestACommitHoldsForOneVersion(t *testing.T) {
	w := orders(t, 3)
	c, raw, at := stage(t, w)
	for what, change := range map[string]func(map[string]any){
		"another head": func(m map[string]any) {
			m["refs"].(map[string]any)["main"].(map[string]any)["snapshot-id"] = json.Number("1")
		},
		"another table":           func(m map[string]any) { m["table-uuid"] = "00000000-0000-0000-0000-000000000000" },
		"another sequence number": func(m map[string]any) { m["last-sequence-number"] = 77 },
	} {
		d := json.NewDecoder(strings.NewReader(string(raw)))
		d.UseNumber()
		var m map[string]any
		if err := d.Decode(&m); err != nil {
			t.Fatal(err)
		}
		change(m)
		text, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(text, at); !errors.Is(err, fault.ErrConflict) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestWhatCannotBeCommitted(t *testing.T) {
	w := orders(t, 2)
	raw, _ := w.Metadata()
	head, err := w.Table().Head("main")
	if err != nil {
		t.Fatal(err)
	}
	scan, err := icebergscan.Open(t.Context(), w.Lake, w.Table(), head)
	if err != nil {
		t.Fatal(err)
	}
	base := icebergcommit.Base{Raw: raw, Meta: w.Table()}
	change := icebergcommit.Change{Branch: "main", Parent: head, Manifests: scan.Manifests()}
	for _, tc := range []struct {
		remove icebergcommit.Removal
		kind   error
	}{
		{icebergcommit.Removal{Manifest: "gone", Path: "x", Offset: icebergscan.Absent}, fault.ErrConflict},
		{icebergcommit.Removal{Manifest: scan.Manifests()[1].Path, Path: "x", Offset: icebergscan.Absent}, fault.ErrConflict},
	} {
		change.Remove = []icebergcommit.Removal{tc.remove}
		if _, err := icebergcommit.Stage(t.Context(), w.Lake, base, change); !errors.Is(err, tc.kind) {
			t.Errorf("%+v: %v", tc.remove, err)
		}
	}
	change.Remove = nil
	change.Add = []icebergcommit.DeleteFile{{PartitionSchema: []byte(`{"type":"record","name":"r102","fields":[]}`), Path: "p", Format: string(iceberg.PuffinFile), Records: 1, Size: 1, Referenced: "d", ContentOffset: 4, ContentSize: 9}}
	if _, err := icebergcommit.Stage(t.Context(), w.Lake, base, change); !errors.Is(err, fault.ErrInvalid) {
		t.Errorf("a vector in version 2: %v", err)
	}
	w.SetProperty("encryption.key-id", "k")
	raw, _ = w.Metadata()
	if _, err := icebergcommit.Stage(t.Context(), w.Lake, icebergcommit.Base{Raw: raw, Meta: w.Table()}, icebergcommit.Change{Branch: "main", Parent: head}); !errors.Is(err, fault.ErrUnsupported) {
		t.Errorf("an encrypted table: %v", err)
	}
}

func mustLoad(t *testing.T, w *draintest.World) *drain.Table {
	t.Helper()
	loaded, err := w.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return loaded
}
