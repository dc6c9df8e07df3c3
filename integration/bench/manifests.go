package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"

	"github.com/frazil-io/frazil/libs/icebergscan"
	"github.com/frazil-io/frazil/libs/probe"
	"github.com/frazil-io/frazil/libs/rowindex"
)

// disk opens the objects of a lake that lie in the file system.
type disk struct{}

// Open implements icebergscan.Opener.
func (disk) Open(_ context.Context, location string) (io.ReadCloser, error) {
	return os.Open(strings.TrimPrefix(location, "file://"))
}

// openScan opens the newest snapshot of the table whose metadata is r.Dir.
func (r *role) openScan(ctx context.Context) (*icebergscan.Table, *icebergscan.Scan, error) {
	text, err := os.ReadFile(r.Dir)
	if err != nil {
		return nil, nil, err
	}
	meta, err := icebergscan.ParseTable(text)
	if err != nil {
		return nil, nil, err
	}
	head, err := meta.Head(icebergscan.MainBranch)
	if err != nil {
		return nil, nil, err
	}
	scan, err := icebergscan.Open(ctx, disk{}, meta, head)
	return meta, scan, err
}

// probeTable measures a table as frazil probe does.
func probeTable(ctx context.Context, r *role) (measured, error) {
	meta, scan, err := r.openScan(ctx)
	if err != nil {
		return measured{}, err
	}
	return r.measure(func(m *measured) error {
		for range r.Repeat {
			report, err := probe.Run(ctx, meta, scan, probe.Config{})
			if err != nil {
				return err
			}
			if report.Totals.Plain.ProbeUnits == 0 {
				return errors.New("no probe units")
			}
		}
		m.Events, m.Bytes = scan.EntriesRead(), scan.Bytes()
		return m.note()
	})
}

// decodeManifests decodes what probeTable reads, and does nothing with it.
func decodeManifests(ctx context.Context, r *role) (measured, error) {
	_, scan, err := r.openScan(ctx)
	if err != nil {
		return measured{}, err
	}
	return r.measure(func(m *measured) error {
		for range r.Repeat {
			for content, want := range map[icebergscan.ManifestContent]icebergscan.Want{
				icebergscan.DeletesManifest: {AllStats: true}, icebergscan.DataManifest: {Stats: []int32{1}},
			} {
				for _, err := range scan.Entries(ctx, content, want) {
					if err != nil {
						return err
					}
				}
			}
		}
		m.Events, m.Bytes = scan.EntriesRead(), scan.Bytes()
		return m.note()
	})
}

// note keeps the peak of this process.
func (m *measured) note() (err error) {
	m.Peak, _, err = peakMemory(os.Getpid())
	return err
}

// indexFiles is how many data files the keys of an index come from.
const indexFiles = 100

// fillIndex puts the rows of data files into an index, as a drain does that reads them for the first time. Bytes are
// what its directory takes once it is closed; Repeat 1 brings it into its smallest form before.
func fillIndex(ctx context.Context, r *role) (m measured, err error) {
	x, err := rowindex.Open(rowindex.Config{Dir: r.Dir, Table: "t", Branch: icebergscan.MainBranch, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return m, err
	}
	defer func() {
		if err = errors.Join(err, x.Close()); err == nil {
			m.Bytes, err = folderBytes(r.Dir)
		}
	}()
	set, err := x.Set("1:long")
	if err != nil {
		return m, err
	}
	random := rand.New(rand.NewPCG(3, 5))
	return r.measure(func(m *measured) error {
		rows := r.Events / indexFiles
		w := x.NewWriter(0)
		for i := range indexFiles {
			if err := w.Begin(fmt.Sprintf("s3://lake/db/t/data/%05d.parquet", i), []uint64{set}); err != nil {
				return err
			}
			var key [9]byte
			for ordinal := range rows {
				for j := range key {
					key[j] = byte(random.Uint32())
				}
				if err := w.Add(set, x.Fingerprint(key[:]), uint32(ordinal)); err != nil {
					return err
				}
				m.Events++
			}
			if err := w.End(int64(rows)); err != nil {
				return err
			}
		}
		if err := w.Close(); err != nil {
			return err
		}
		if r.Repeat > 0 {
			if err := x.Compact(ctx); err != nil {
				return err
			}
		}
		return m.note()
	})
}

// folderBytes is what all files below a folder take.
func folderBytes(dir string) (size int64, err error) {
	err = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += info.Size()
		}
		return err
	})
	return size, err
}
