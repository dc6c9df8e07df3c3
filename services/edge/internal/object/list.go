package object

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/rpc"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	"github.com/frazil-io/frazil/services/edge/internal/vend"
)

// List answers the listed objects of a scope, sorted by key: the current metadata JSON and the manifest list of
// its current snapshot. Everything else that can be read is named by them: it is made on demand, and a listing of
// it would be a scan of the table. Nothing is listed if the scope's table has another state by now.
func (s *Store) List(ctx context.Context, scope vend.Scope, bucket string) ([]Info, error) {
	resp, err := s.catalog.LoadTable(ctx, &catalogv1.LoadTableRequest{
		Warehouse: scope.Warehouse, Namespace: scope.Namespace, Table: scope.Table,
	})
	if err != nil {
		return nil, rpc.Error(err)
	}
	list, err := currentManifestList(resp.GetMetadataJson())
	if err != nil {
		return nil, err
	}
	var out []Info
	for _, location := range []string{resp.GetMetadataLocation(), list} {
		key, ok := strings.CutPrefix(location, "s3://"+bucket+"/")
		if !ok || !strings.HasPrefix(key, scope.Prefix) {
			continue
		}
		info, err := s.Stat(ctx, key)
		if err != nil {
			return nil, err
		}
		out = append(out, info)
	}
	slices.SortFunc(out, func(a, b Info) int { return strings.Compare(a.Key, b.Key) })
	return out, nil
}

// currentManifestList answers "" for a table without a snapshot.
func currentManifestList(metadata []byte) (string, error) {
	var m struct {
		Current   *int64 `json:"current-snapshot-id"`
		Snapshots []struct {
			ID           int64  `json:"snapshot-id"`
			ManifestList string `json:"manifest-list"`
		} `json:"snapshots"`
	}
	if err := json.Unmarshal(metadata, &m); err != nil {
		return "", fmt.Errorf("list objects: read metadata: %w", fault.ErrCorrupt)
	}
	for _, snap := range m.Snapshots {
		if m.Current != nil && snap.ID == *m.Current {
			return snap.ManifestList, nil
		}
	}
	return "", nil
}
