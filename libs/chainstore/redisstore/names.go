package redisstore

import "strings"

// spaces of names, a character in Redis keys.
const (
	spaceValues = "v"
	spaceBlobs  = "b"
)

// place is where a key of the store lies. Keys of a group share a Redis hash and an index; groups with the same tag
// share a hash slot of a Cluster, so that a script may change them together.
type place struct {
	group string // the leading segments of the key
	field string // the rest, with its leading slash; empty if the key is its own group
}

// placeOf splits a key. Of kind/epoch/partition/name the group is kind/epoch/partition, and of head/epoch/partition
// all of it: the tag of both is epoch/partition, a log. Of kind/owner/name it is kind/owner, with the tag owner. A
// shorter key is a group of its own.
func placeOf(key string) place {
	slashes := slashesOf(key)
	switch {
	case len(slashes) >= 3:
		return place{key[:slashes[2]], key[slashes[2]:]}
	case len(slashes) == 2 && !strings.HasPrefix(key, headKind):
		return place{key[:slashes[1]], key[slashes[1]:]}
	}
	return place{group: key}
}

// headKind begins the keys whose third segment is the partition of a log and not a name below an owner.
const headKind = "head/"

// slashesOf answers where the first three slashes are.
func slashesOf(key string) []int {
	var at []int
	for i := range len(key) {
		if key[i] == '/' {
			if at = append(at, i); len(at) == 3 {
				break
			}
		}
	}
	return at
}

// tag is what the hash slot of a group is taken from: the group without its kind. Redis takes it from between the
// first { and the first } after it, and from the whole key if nothing is there.
func (p place) tag() string {
	tag := p.group
	if _, rest, ok := strings.Cut(p.group, "/"); ok {
		tag = rest
	}
	if tag == "" || tag[0] == '}' {
		return "-"
	}
	return tag
}

func (p place) kind() string {
	kind, _, _ := strings.Cut(p.group, "/")
	return kind
}

// keyspace names things in Redis.
type keyspace struct{ prefix string }

func (k keyspace) key(p place, space string) string {
	return k.prefix + "{" + p.tag() + "}" + space + ":" + p.group
}

// values is the hash of a group: field to stored form.
func (k keyspace) values(p place, space string) string { return k.key(p, space) }

// index is the sorted set of a group's fields, all with score 0, so that Redis orders them by their bytes.
func (k keyspace) index(p place, space string) string { return k.key(p, space+"i") }

// piece is one part of a large blob. sum is of fixed length.
func (k keyspace) piece(p place, sum string, number string) string {
	return k.key(p, "p") + p.field + "#" + sum + "#" + number
}

// directory is the sorted set of all groups of a space. An entry is written before the first key of its group.
func (k keyspace) directory(space string) string { return k.prefix + "{directory}" + space }

// candidates answers where keys that begin with prefix can be beside the groups that begin with it: groups of which
// prefix names a part, as the place of that part. groups is false when no group can begin with prefix.
func candidates(prefix string) (within []place, groups bool) {
	slashes := slashesOf(prefix)
	if len(slashes) == 3 {
		return []place{{prefix[:slashes[2]], prefix[slashes[2]:]}}, false
	}
	if len(slashes) == 2 && !strings.HasPrefix(prefix, headKind) {
		within = []place{{prefix[:slashes[1]], prefix[slashes[1]:]}}
	}
	return within, true
}
