// Package route chooses the materializer that serves a data file.
package route

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"

	"google.golang.org/grpc"

	"github.com/frazil-io/frazil/libs/objectname"
	"github.com/frazil-io/frazil/libs/rpc"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// DataSource opens streams of data-file bytes. Safe for concurrent use.
type DataSource interface {
	// ReadData opens a stream of [offset, offset+length) of the file.
	ReadData(ctx context.Context, file objectname.DataFile, offset, length int64) (grpc.ClientStream, error)
}

// Replica is one materializer. Names are equal on all edges and never re-used for another address at once.
type Replica struct {
	Name   string
	Client materializerv1.MaterializerServiceClient
}

// Rendezvous sends all files of a chunk to one replica. A replica that joins or leaves takes only its share along;
// edges that see different sets cause double work, never a wrong byte.
type Rendezvous struct {
	replicas []Replica
}

// NewRendezvous takes a static list of replicas.
func NewRendezvous(replicas []Replica) (*Rendezvous, error) {
	if len(replicas) == 0 {
		return nil, errors.New("route data files: no materializer")
	}
	seen := map[string]bool{}
	for _, r := range replicas {
		if r.Client == nil || seen[r.Name] {
			return nil, fmt.Errorf("route data files: materializer %q appears twice or has no client", r.Name)
		}
		seen[r.Name] = true
	}
	return &Rendezvous{replicas}, nil
}

// ReadData implements DataSource.
func (r *Rendezvous) ReadData(ctx context.Context, file objectname.DataFile, offset, length int64) (grpc.ClientStream, error) {
	chosen := r.replicas[r.choose(file)]
	return chosen.Client.ReadData(ctx, &materializerv1.ReadDataRequest{
		ObjectKey: file.Key(), Offset: offset, Length: length,
	}, rpc.BulkCallOption())
}

// smallestChunkLog2: chunks are aligned ranges of at least 2^14 offsets. The name of a file does not say how large
// its chunk is, but its start, rounded down to the smallest chunk, stays the same while the chunk grows.
const smallestChunkLog2 = 14

func (r *Rendezvous) choose(file objectname.DataFile) int {
	if len(r.replicas) == 1 {
		return 0
	}
	what := file.Table.Location(file.View) + "/" + strconv.Itoa(int(file.Partition)) + "/" +
		strconv.FormatInt(int64(file.Range.Start>>smallestChunkLog2), 10)
	best, bestScore := 0, uint64(0)
	for i, rep := range r.replicas {
		sum := sha256.Sum256([]byte(rep.Name + "\x00" + what))
		score := binary.BigEndian.Uint64(sum[:8])
		if i == 0 || score > bestScore || score == bestScore && rep.Name < r.replicas[best].Name {
			best, bestScore = i, score
		}
	}
	return best
}
