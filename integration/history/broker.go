package history

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// broker is a Kafka within this process that keeps its logs in files, so that it can come back with less.
type broker struct {
	*kfake.Cluster
	dir string
}

func openBroker(dir string, opts ...kfake.Opt) (*broker, error) {
	c, err := kfake.NewCluster(append(opts, kfake.DataDir(dir))...)
	if err != nil {
		return nil, err
	}
	return &broker{c, dir}, nil
}

// truncate cuts a log off at the end of the last batch that ends at most at the offset at and leaves no transaction
// open, as an unclean election of a replica that was behind does: the broker comes back under the next leader epoch.
// The answer is where the log ends then.
func (b *broker) truncate(topic string, partition int, at int64) (end int64, err error) {
	_, text, err := net.SplitHostPort(b.ListenAddrs()[0])
	if err != nil {
		return 0, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return 0, err
	}
	b.Close()
	log := logFiles{filepath.Join(b.dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(topic), partition))}
	end, err = log.truncate(at)
	next, openErr := openBroker(b.dir, kfake.Ports(port))
	if err = errors.Join(err, openErr); err != nil {
		return 0, err
	}
	b.Cluster = next.Cluster
	return end, nil
}

// logFiles is what the broker keeps of one log: batches as they came, an index beside them, and a summary.
type logFiles struct{ dir string }

// indexEntry is the bytes that the index has of a batch.
const indexEntry = 15

// batchHead is the bytes of a batch that its length does not count: the first offset, and the length.
const batchHead = 12

// controlBatch is the attribute of a batch that is the marker of a transaction.
const controlBatch = 1 << 5

// transactional is the attribute of a batch of a transaction.
const transactional = 1 << 4

func (l logFiles) truncate(at int64) (end int64, err error) {
	summary := map[string]json.RawMessage{}
	file := filepath.Join(l.dir, "snapshot.json")
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &summary)
	}
	if err != nil {
		return 0, err
	}
	var segments []map[string]any
	var epoch int32
	var aborted []struct {
		ProducerID  int64 `json:"producer_id"`
		FirstOffset int64 `json:"first_offset"`
		LastOffset  int64 `json:"last_offset"`
	}
	for name, to := range map[string]any{
		"segments": &segments, "epoch": &epoch, "log_start_offset": &end, "aborted_txns": &aborted,
	} {
		if raw, ok := summary[name]; ok && err == nil {
			err = json.Unmarshal(raw, to)
		}
	}
	if err != nil {
		return 0, err
	}
	if len(segments) != 1 {
		return 0, fmt.Errorf("the log has %d segments, want one", len(segments))
	}
	base := filepath.Join(l.dir, fmt.Sprint(segments[0]["base_offset"]))
	batches, err := os.ReadFile(base + ".dat")
	if err != nil {
		return 0, err
	}
	size, count, end, err := lastBefore(batches, end, at)
	if err != nil {
		return 0, err
	}
	kept := aborted[:0]
	for _, a := range aborted {
		if a.LastOffset < end {
			kept = append(kept, a)
		}
	}
	segments[0]["size"] = size
	for name, value := range map[string]any{
		"segments": segments, "epoch": epoch + 1, "high_watermark": end, "last_stable_offset": end, "aborted_txns": kept,
	} {
		if summary[name], err = json.Marshal(value); err != nil {
			return 0, err
		}
	}
	if text, err = json.Marshal(summary); err != nil {
		return 0, err
	}
	return end, errors.Join(os.Truncate(base+".dat", size), os.Truncate(base+".idx", count*indexEntry), os.WriteFile(file, text, 0o600))
}

// lastBefore finds where to cut: the bytes and the number of the batches that stay, and the offset after them.
func lastBefore(batches []byte, start, at int64) (size, count, end int64, err error) {
	end = start
	open := map[int64]bool{} // producers whose transaction has no marker yet
	position, n := int64(0), int64(0)
	for len(batches) > 0 {
		if len(batches) < batchHead {
			return 0, 0, 0, fmt.Errorf("batch %d has %d bytes", n, len(batches))
		}
		whole := batchHead + int64(binary.BigEndian.Uint32(batches[8:]))
		var b kmsg.RecordBatch
		if err := b.ReadFrom(batches[:min(whole, int64(len(batches)))]); err != nil {
			return 0, 0, 0, fmt.Errorf("read batch %d: %w", n, err)
		}
		batches, position, n = batches[whole:], position+whole, n+1
		if b.Attributes&transactional != 0 {
			if b.Attributes&controlBatch != 0 {
				delete(open, b.ProducerID)
			} else {
				open[b.ProducerID] = true
			}
		}
		// Something stays where the log does not start at 0: one that is empty forgets where it ended.
		next := b.FirstOffset + int64(b.LastOffsetDelta) + 1
		if len(open) == 0 && (next <= at || start > 0 && end <= start) {
			size, count, end = position, n, max(start, next)
		}
	}
	return size, count, end, nil
}
