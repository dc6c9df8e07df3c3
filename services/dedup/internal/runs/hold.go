package runs

import "github.com/frazil-io/frazil/services/dedup/internal/state"

// Hold keeps a run that nothing names from being collected until release is called: a part of one that is being made.
func (d *Dir) Hold(log state.Log, name string) (release func()) {
	path := d.path(log, name)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.held == nil {
		d.held = map[string]bool{}
	}
	d.held[path] = true
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.held, path)
	}
}

// Held reports whether a run must not be collected.
func (d *Dir) Held(log state.Log, name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.held[d.path(log, name)]
}
