package probe

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/frazil-io/frazil/libs/probe"
)

// The history file grows by a line a run. Above maxHistory bytes its older half is dropped: some 20 000 runs.
const maxHistory = 8 << 20

// history reads what is kept of a table; nothing for a file that does not exist yet.
func history(file, table, ref string, log *slog.Logger) ([]probe.Record, error) {
	if file == "" {
		return nil, nil
	}
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open history: %w", err)
	}
	defer f.Close() //nolint:errcheck // only read
	records, bad, err := probe.ReadHistory(f, table, ref)
	if err != nil {
		return nil, fmt.Errorf("history %s: %w", file, err)
	}
	if bad > 0 && log != nil {
		log.Warn("lines of the history are no records", "file", file, "lines", bad)
	}
	return records, nil
}

// last answers the newest record of a table; nil if there is none.
func last(file, table, ref string, log *slog.Logger) (*probe.Record, error) {
	records, err := history(file, table, ref, log)
	if err != nil || len(records) == 0 {
		return nil, err
	}
	return &records[len(records)-1], nil
}

// keep appends a record. A line that a crash has cut short is ended first, so that only it is lost.
func keep(file string, rec probe.Record) error {
	f, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("open history: %w", err)
	}
	var line bytes.Buffer
	size, err := f.Seek(0, 2)
	if err == nil && size > 0 {
		var end [1]byte
		if _, err = f.ReadAt(end[:], size-1); err == nil && end[0] != '\n' {
			line.WriteByte('\n')
		}
	}
	err = errors.Join(err, rec.AppendTo(&line))
	if err == nil {
		_, err = f.Write(line.Bytes())
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write history %s: %w", file, err)
	}
	if size > maxHistory {
		return shorten(file)
	}
	return nil
}

// shorten drops the older half of the file.
func shorten(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("shorten history: %w", err)
	}
	at := bytes.IndexByte(text[len(text)/2:], '\n')
	if at < 0 {
		return nil
	}
	return replace(file, text[len(text)/2+at+1:])
}

// replace puts a file in place of another at once.
func replace(file string, text []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), ".frazil-*")
	if err != nil {
		return fmt.Errorf("write %s: %w", file, err)
	}
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Sync(), tmp.Chmod(0o644), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", file, errors.Join(err, os.Remove(tmp.Name())))
	}
	return nil
}

// draw makes the chart of the history.
func draw(o *options, log *slog.Logger) error {
	records, err := history(o.state, o.tables[0], o.ref, log)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := probe.Chart(&b, "probe units of "+o.tables[0]+", "+o.ref, records); err != nil {
		return err
	}
	return replace(o.chart, b.Bytes())
}

// drawOnly draws without measuring; there must be something to draw.
func drawOnly(o *options) error {
	records, err := history(o.state, o.tables[0], o.ref, nil)
	if err != nil {
		return err
	}
	if len(records) == 0 {
		return fmt.Errorf("%s has no run of table %s, ref %s", o.state, o.tables[0], o.ref)
	}
	return draw(o, nil)
}
