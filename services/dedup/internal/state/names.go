package state

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
)

// Kinds of blobs that belong to a log.
const (
	RootKind     = "root"
	PageKind     = "page"
	LayoutKind   = "layout"
	SegmentKind  = "segment"
	FoldKind     = "fold"
	RowGroupKind = "rowgroups"
)

// LogKinds are the kinds of blobs that belong to a log and are named by version and content.
func LogKinds() []string {
	return []string{RootKind, PageKind, LayoutKind, SegmentKind, FoldKind, RowGroupKind}
}

const hashLen = 20 // base32 characters of a content hash in a blob name

// RecordKey is where a topic's record is.
func RecordKey(id kafkapos.TopicID) string { return "record/" + id.String() }

// RecordPrefix is before every record's key.
const RecordPrefix = "record/"

// TopicKey is where the id of a topic's present incarnation is.
func TopicKey(clusterID, topic string) string {
	return "topic/" + hex.EncodeToString([]byte(clusterID)) + "/" + hex.EncodeToString([]byte(topic))
}

// EpochKey is where a state epoch's EpochInfo is.
func EpochKey(epoch string) string { return "epoch/" + epoch }

// HeadKey is where a log's head is.
func HeadKey(epoch string, p kafkapos.Partition) string {
	return HeadPrefix(epoch) + strconv.Itoa(int(p))
}

// HeadPrefix is before the partition in the key of every head of a state epoch.
func HeadPrefix(epoch string) string { return "head/" + epoch + "/" }

// LogBlob is the name of a blob of a log; suffix is what directories and heads hold.
func LogBlob(kind, epoch string, p kafkapos.Partition, suffix string) string {
	return LogPrefix(kind, epoch, p) + suffix
}

// LogPrefix is before the suffix of every blob of a kind and a log.
func LogPrefix(kind, epoch string, p kafkapos.Partition) string {
	return fmt.Sprintf("%s/%s/%d/", kind, epoch, p)
}

// Suffix is <planned version>-<hash of the content>: names of two plans never meet, unless the plans are equal.
func Suffix(planned uint64, content []byte) string {
	sum := sha256.Sum256(content)
	return strconv.FormatUint(planned, 10) + "-" + objectname.Word(sum[:], hashLen)
}

// RowGroupsSuffix is Suffix behind the end of the file that the row groups are of, so that the row groups of an
// older file of an open chunk can be found by its end.
func RowGroupsSuffix(end kafkapos.Offset, planned uint64, content []byte) string {
	return RowGroupsOf(end) + Suffix(planned, content)
}

// RowGroupsOf is before the suffix of every row group blob of files with this end.
func RowGroupsOf(end kafkapos.Offset) string { return strconv.FormatInt(int64(end), 10) + "-" }

// Planned is the version in a suffix that Suffix or RowGroupsSuffix made for the kind.
func Planned(kind, suffix string) (uint64, bool) {
	parts := strings.Split(suffix, "-")
	at := 0
	if kind == RowGroupKind {
		at = 1
	}
	if len(parts) != at+2 {
		return 0, false
	}
	v, err := strconv.ParseUint(parts[at], 10, 64)
	return v, err == nil
}

// SnapshotPrefix is before the suffix of every snapshot blob of a state epoch.
func SnapshotPrefix(epoch string) string { return "snapshot/" + epoch + "/" }

// SnapshotBlob is the name of a snapshot's blob.
func SnapshotBlob(epoch, suffix string) string { return SnapshotPrefix(epoch) + suffix }

// VersionPrefix is before the name of every replaced record of a state epoch.
func VersionPrefix(epoch string) string { return "version/" + epoch + "/" }

// VersionBlob is where a replaced version of a record is.
func VersionBlob(epoch string, v uint64) string {
	return VersionPrefix(epoch) + strconv.FormatUint(v, 10)
}

// GroupPrefix is before the name of every manifest group of a state epoch.
func GroupPrefix(epoch string) string { return "group/" + epoch + "/" }

// GroupBlob is where a manifest group is.
func GroupBlob(epoch, name string) string { return GroupPrefix(epoch) + name }

// GroupNameLen is the length of a manifest group's name, base32 characters.
const GroupNameLen = 26

// GroupName names a manifest group by its entries and the version of the record that it was planned on: a group
// that was collected and the same group made anew have different names, so that a paused writer cannot publish
// a name whose bytes are gone.
func GroupName(planned uint64, entries []byte) string {
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(nil, planned))
	h.Write(entries)
	return objectname.Word(h.Sum(nil), GroupNameLen)
}

// SnapshotID is 63 bits of a hash of the table and the cut; positive. frontiers, by partition, are how far the log was
// read when that was not yet down to the start of the cut, else the start: the same cut, read further, is shown by
// other files and is another snapshot.
func SnapshotID(id kafkapos.TopicID, epoch, view string, cut []kafkapos.Range, frontiers []kafkapos.Offset) int64 {
	h := sha256.New()
	h.Write(id[:])
	h.Write([]byte(epoch + "/" + view))
	var b []byte
	for _, r := range cut {
		b = binary.BigEndian.AppendUint64(b, uint64(r.Start))
		b = binary.BigEndian.AppendUint64(b, uint64(r.End))
	}
	for i, f := range frontiers {
		if f > cut[i].Start {
			b = binary.BigEndian.AppendUint64(b, uint64(i))
			b = binary.BigEndian.AppendUint64(b, uint64(f))
		}
	}
	h.Write(b)
	return max(1, int64(binary.BigEndian.Uint64(h.Sum(nil))>>1))
}
