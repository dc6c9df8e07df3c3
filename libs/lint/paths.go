package lint

import (
	"net/url"
	"strings"

	"github.com/frazil-io/frazil/libs/icebergscan"
)

// even answers a form of a location in which spellings of the same object are equal: s3a and s3n are s3, doubled
// slashes are single, file:/x is file:///x, percent escapes are resolved. Readers compare none of it.
func even(location string) string {
	scheme, rest, ok := strings.Cut(location, ":")
	if !ok {
		scheme, rest = "file", location
	}
	switch scheme {
	case "s3a", "s3n":
		scheme = "s3"
	case "abfs", "wasb", "wasbs":
		scheme = "abfss"
	}
	if plain, err := url.PathUnescape(rest); err == nil {
		rest = plain
	}
	parts := strings.FieldsFunc(rest, func(c rune) bool { return c == '/' })
	return scheme + ":" + strings.Join(parts, "/")
}

// spelling notes data files whose path only nearly is that of a target.
func (r *run) spelling(e *icebergscan.Entry) {
	if len(r.targets) == 0 {
		return
	}
	if r.normal == nil {
		r.normal = make(map[string][]string, len(r.targets))
		for path := range r.targets {
			r.normal[even(path)] = append(r.normal[even(path)], path)
		}
	}
	path := string(e.Path)
	for _, named := range r.normal[even(path)] {
		if named != path {
			r.targets[named].spelled = path
		}
	}
}

// matchTargets looks at deletes whose data file was not found under the path as written.
func (r *run) matchTargets() {
	for _, t := range r.targets {
		if t.found {
			continue
		}
		for _, d := range t.deletes {
			switch {
			case t.spelled != "":
				r.found.add("path-mismatch", Error, nil, "a delete file names its data file by another spelling of the path: readers compare strings, so it deletes nothing in any of them", d.path)
			default:
				r.found.add("dangling-position-delete", Note, nil, "a position delete names a data file that is not in the table any more", d.path)
			}
		}
	}
}

// looseDeletes looks at position delete files that name no single data file.
func (r *run) looseDeletes() {
	for _, group := range r.loose {
		for _, d := range group {
			switch {
			case !d.bounded:
				r.found.add("no-path-bounds", Warning, nil, "a position delete file without bounds of file_path: readers attach it to every data file of its partition", d.path)
			case d.prefixOfData:
				r.found.add("truncated-path-bounds", Warning, nil, "a position delete file whose bounds of file_path are cut short: readers attach it to every data file of its partition", d.path)
			}
			if d.dataFiles > 1 {
				r.found.add("shared-position-delete", Warning, nil, "one position delete file over several data files: each of them reads all of it, and Polars' native reader refuses it", d.path)
			}
		}
	}
}
