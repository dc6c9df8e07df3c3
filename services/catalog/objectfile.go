package catalog

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"

	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/iceberg"
	"github.com/frazil-io/frazil/libs/objectname"
)

// The names of metadata objects. Each is a function of what the object is made of, so that any replica answers it,
// and holds what is needed to find that again:
//
//	<record version>-<uuid>.metadata.json                               ClickHouse takes no other form
//	snap-<snapshot id>-<hash of its groups>.avro                        a withdrawal changes the groups
//	<group>-<added snapshot id>-s<schema id>-w<writer version>-m0.avro  m0: data files, m1: delete files
const (
	contentJSON = "application/json"
	contentAvro = "avro/binary"

	listHashLen = 16
)

// subject is one rendering of one version of a table.
type subject struct {
	cfg     *Config
	state   *dedupv1.TableState
	table   objectname.Table
	dialect string
}

func newSubject(cfg *Config, state *dedupv1.TableState, dialect string) subject {
	table := objectname.Table{Name: state.GetTable(), Epoch: state.GetStateEpoch()}
	return subject{cfg, state, table, dialect}
}

func (s subject) formatVersion() int {
	if s.dialect == objectname.V3 {
		return iceberg.V3
	}
	return iceberg.V2
}

// uri is the location of an object key or prefix.
func (s subject) uri(key string) string { return "s3://" + s.cfg.Bucket + "/" + key }

func (s subject) location() string { return s.uri(s.table.Location(objectname.Current)) }

func (s subject) object(file string) objectname.Metadata {
	return objectname.Metadata{Table: s.table, View: objectname.Current, Dialect: s.dialect, File: file}
}

// uuid is the table's UUID: stable for as long as the state epoch lives, another one for every other table.
func (s subject) uuid() uuid.UUID {
	name := fmt.Sprintf("frazil:%x/%s/%s/%s", s.state.GetTopic().GetTopicId(), s.table.Epoch, objectname.Current, s.dialect)
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(name))
}

// metadataFile names the metadata JSON of the record's version. The UUID covers everything that shows in the bytes: a
// store that was set back counts the same versions again, for other records.
func (s subject) metadataFile() string {
	version := strconv.FormatUint(s.state.GetVersion(), 10)
	h := digest{sha256.New()}
	h.number(s.state.GetUpdatedMillis())
	h.text(s.state.GetPlan())
	h.number(int64(s.state.GetCurrentSchemaId()))
	h.number(int64(len(s.state.GetSchemasJson())))
	for _, schema := range s.state.GetSchemasJson() {
		h.text(string(schema))
	}
	tags := s.state.GetTags()
	h.number(int64(len(tags)))
	for _, tag := range slices.Sorted(maps.Keys(tags)) {
		h.text(tag)
		h.number(tags[tag])
	}
	for _, snap := range s.state.GetSnapshots() {
		h.snapshot(snap)
		h.number(snap.GetTimestampMillis())
	}
	outside := fmt.Sprintf("%s/%s/%d/%d/%s/%x", s.uuid(), version, iceberg.Version, s.cfg.ListedSnapshots, s.cfg.Bucket, h.Sum(nil))
	return version + "-" + s.metadataUUID(s.state.GetVersion(), sha256.Sum256([]byte(outside))).String() + metadataSuffix
}

const (
	metadataSuffix = ".metadata.json"
	// contentBytes of the UUID in a metadata file's name are of the content's hash, the rest is a check.
	contentBytes = 10
)

// metadataUUID is a version 8 UUID of a hash of the content and of a check that only the state epoch's key makes: that
// a name was issued can be told from the name alone, also when the state that it was made from is lost.
func (s subject) metadataUUID(version uint64, content [sha256.Size]byte) (u uuid.UUID) {
	copy(u[:contentBytes], content[:])
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version and variant, RFC 9562
	check := hmac.New(sha256.New, s.state.GetCheckKey())
	check.Write([]byte("frazil:metadata:" + s.uuid().String()))
	check.Write(binary.BigEndian.AppendUint64(nil, version))
	check.Write(u[:contentBytes])
	copy(u[contentBytes:], check.Sum(nil))
	return u
}

// issued reports whether the name of a metadata file with this version was made under the state epoch's key.
func (s subject) issued(file string, version uint64) bool {
	name, ok := strings.CutPrefix(file, strconv.FormatUint(version, 10)+"-")
	u, err := uuid.Parse(strings.TrimSuffix(name, metadataSuffix))
	if !ok || err != nil {
		return false
	}
	var content [sha256.Size]byte
	copy(content[:], u[:contentBytes])
	want := s.metadataUUID(version, content)
	return hmac.Equal(u[:], want[:])
}

// listFile names the manifest list of a snapshot.
func (s subject) listFile(snap *dedupv1.Snapshot) string {
	h := digest{sha256.New()}
	h.text(s.uuid().String())
	h.text(s.cfg.Bucket)
	h.number(iceberg.Version)
	h.snapshot(snap)
	return fmt.Sprintf("snap-%d-%s.avro", snap.GetId(), objectname.Word(h.Sum(nil), listHashLen))
}

// digest hashes values one after the other, so that no two lists of them look alike.
type digest struct{ hash.Hash }

func (h digest) number(v int64) { h.Write(binary.BigEndian.AppendUint64(nil, uint64(v))) }

func (h digest) text(v string) {
	h.number(int64(len(v)))
	h.Write([]byte(v))
}

// snapshot hashes what a manifest list is made of.
func (h digest) snapshot(snap *dedupv1.Snapshot) {
	h.number(snap.GetId())
	h.number(snap.GetParentId())
	h.number(int64(snap.GetSchemaId()))
	for _, g := range snap.GetGroups() {
		h.text(g.GetName())
		h.number(g.GetAddedSnapshotId())
	}
}

// manifestID is what a manifest is rendered from, beside the dialect.
type manifestID struct {
	group      string
	snapshotID int64
	schemaID   int32
}

func (m manifestID) file(content iceberg.Content) string {
	return fmt.Sprintf("%s-%d-s%d-w%d-m%d.avro", m.group, m.snapshotID, m.schemaID, iceberg.Version, int(content))
}

// fileName is a parsed file name: one of version, list and manifest is set.
type fileName struct {
	version  uint64 // of the metadata JSON
	list     int64  // snapshot id of the manifest list
	manifest *manifestID
}

// fileNames reads file names.
type fileNames struct {
	metadata, list, manifest *regexp.Regexp
}

func newFileNames() fileNames {
	return fileNames{
		metadata: regexp.MustCompile(`^([1-9][0-9]{0,18})-[0-9a-f-]{36}\.metadata\.json$`),
		list:     regexp.MustCompile(`^snap-([1-9][0-9]{0,18})-[a-z2-7]{16}\.avro$`),
		manifest: regexp.MustCompile(`^([a-z2-7]{26})-([1-9][0-9]{0,18})-s(0|[1-9][0-9]{0,8})-w([0-9]{1,9})-m[01]\.avro$`),
	}
}

// parse reads a file name. Errors: fault.ErrNotFound (never issued), fault.ErrRetired (issued by another version
// of the writer, whose bytes can't be made any more).
func (f fileNames) parse(file string) (fileName, error) {
	if m := f.metadata.FindStringSubmatch(file); m != nil {
		v, err := strconv.ParseUint(m[1], 10, 63)
		return fileName{version: v}, notIssued(err)
	}
	if m := f.list.FindStringSubmatch(file); m != nil {
		id, err := strconv.ParseInt(m[1], 10, 64)
		return fileName{list: id}, notIssued(err)
	}
	m := f.manifest.FindStringSubmatch(file)
	if m == nil {
		return fileName{}, fmt.Errorf("metadata object %s: %w", file, fault.ErrNotFound)
	}
	id, err := strconv.ParseInt(m[2], 10, 64)
	schemaID, errSchema := strconv.ParseInt(m[3], 10, 32)
	if err != nil || errSchema != nil {
		return fileName{}, fmt.Errorf("metadata object %s: %w", file, fault.ErrNotFound)
	}
	if m[4] != strconv.Itoa(iceberg.Version) {
		return fileName{}, fmt.Errorf("manifest of writer version %s: %w: plan the query again", m[4], fault.ErrRetired)
	}
	return fileName{manifest: &manifestID{m[1], id, int32(schemaID)}}, nil
}

func notIssued(err error) error {
	if err != nil {
		return fmt.Errorf("metadata object: %w: %w", fault.ErrNotFound, err)
	}
	return nil
}
