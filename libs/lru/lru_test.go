package lru_test

import (
	"strings"
	"testing"

	"github.com/frazil-io/frazil/libs/lru"
)

func kept(c *lru.Cache[string, int], keys ...string) string {
	var out []string
	for _, k := range keys {
		if _, ok := c.Get(k); ok {
			out = append(out, k)
		}
	}
	return strings.Join(out, "")
}

func TestTheLeastRecentlyUsedGoFirst(t *testing.T) {
	c := lru.New[string, int](3)
	for i, k := range []string{"a", "b", "c"} {
		c.Add(k, i, 1)
	}
	c.Get("a")
	c.Add("d", 3, 2)
	if got := kept(c, "a", "b", "c", "d"); got != "ad" {
		t.Errorf("kept %q, want ad: a was used, d costs two", got)
	}
}

func TestAReplacedValueGivesItsCostBack(t *testing.T) {
	c := lru.New[string, int](3)
	c.Add("a", 1, 2)
	c.Add("a", 2, 1)
	c.Add("b", 3, 2)
	if v, ok := c.Get("a"); !ok || v != 2 || kept(c, "b") != "b" {
		t.Errorf("a is %d %t, b is kept: %q", v, ok, kept(c, "b"))
	}
}

func TestAValueAboveTheLimitPushesNothingOut(t *testing.T) {
	c := lru.New[string, int](3)
	c.Add("a", 1, 3)
	c.Add("b", 2, 4)
	if got := kept(c, "a", "b"); got != "a" {
		t.Errorf("kept %q, want a", got)
	}
	c.Add("a", 1, 4)
	if got := kept(c, "a"); got != "" {
		t.Error("a value that outgrew the limit left its old one behind")
	}
}

func TestRemoveFuncFreesRoom(t *testing.T) {
	c := lru.New[string, int](2)
	c.Add("x/1", 1, 1)
	c.Add("y/1", 2, 1)
	c.RemoveFunc(func(k string) bool { return strings.HasPrefix(k, "x/") })
	c.Add("z/1", 3, 1)
	if got := kept(c, "x/1", "y/1", "z/1"); got != "y/1z/1" {
		t.Errorf("kept %q, want y/1z/1", got)
	}
}
