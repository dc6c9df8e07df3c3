package s3

import (
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/frazil-io/frazil/services/edge/internal/object"
)

// model is the oracle: group everything first, then cut.
func model(keys []string, l listing) []string {
	var out []string
	for _, k := range keys {
		if !strings.HasPrefix(k, l.prefix) || k <= l.after {
			continue
		}
		if l.delimiter != "" {
			head, _, ok := strings.Cut(k[len(l.prefix):], l.delimiter)
			if ok {
				k = l.prefix + head + l.delimiter
			}
		}
		out = append(out, k)
	}
	return slices.Compact(out)
}

func entries(p page) []string {
	out := slices.Clone(p.prefixes)
	for _, o := range p.objects {
		out = append(out, o.Key)
	}
	slices.Sort(out)
	return out
}

// Pages of any size, put together, are the listing; no page is larger than asked for, and every entry comes once.
func TestPages(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	for range 3000 {
		keys := map[string]bool{}
		for range r.IntN(30) {
			var b strings.Builder
			for range 1 + r.IntN(6) {
				b.WriteByte("ab/-"[r.IntN(4)])
			}
			keys[b.String()] = true
		}
		var sorted []string
		var all []object.Info
		for k := range keys {
			sorted = append(sorted, k)
		}
		slices.Sort(sorted)
		for _, k := range sorted {
			all = append(all, object.Info{Key: k})
		}
		l := listing{prefix: []string{"", "a", "a/", "zz"}[r.IntN(4)], delimiter: []string{"", "/", "b-"}[r.IntN(3)], max: 1 + r.IntN(5)}
		if r.IntN(3) == 0 && len(sorted) > 0 {
			l.after = sorted[r.IntN(len(sorted))]
		}
		want := model(sorted, l)
		var got []string
		for next := l; ; {
			p := next.page(all)
			if n := len(p.objects) + len(p.prefixes); n > l.max || p.truncated && n != l.max {
				t.Fatalf("seed %d: page of %d, at most %d, truncated %v", seed, n, l.max, p.truncated)
			}
			got = append(got, entries(p)...)
			if !p.truncated {
				break
			}
			after, ok := parseToken(token(p.last))
			if !ok {
				t.Fatalf("seed %d: token of %q", seed, p.last)
			}
			next.after, next.resumed = after, true
		}
		if !reflect.DeepEqual(got, want) && len(got)+len(want) > 0 {
			t.Fatalf("seed %d: %+v of %q\n got %q\nwant %q", seed, l, sorted, got, want)
		}
	}
}
