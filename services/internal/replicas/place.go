package replicas

import (
	"strconv"

	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/objectname"
	catalogv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/catalog/v1"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	materializerv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/materializer/v1"
)

// regionLog2 is the log2 of the largest chunk. Neither the name of a file nor a scan says how large its chunk is, but
// both lie in one aligned region of this size, whatever the chunk is.
const regionLog2 = 22

// PlaceOf is what a request to any of our services is about; empty if it is about nothing in particular.
//
// A scan and the reading of what it encoded meet at a region of a log. The replica of dedup that advances a table has
// the key runs of it on its disk. The catalog that loaded a table has rendered its metadata.
func PlaceOf(req any) string {
	switch r := req.(type) {
	case *materializerv1.ScanKeysRequest:
		t := r.GetTable()
		return region(t.GetStateEpoch(), t.GetView(), kafkapos.Partition(r.GetPartition()), kafkapos.Offset(r.GetStart()))
	case *materializerv1.ReadDataRequest:
		return ofObject(r.GetObjectKey())
	case *materializerv1.DiscoverSchemaRequest:
		return string(r.GetTopic().GetTopicId())
	case *dedupv1.AdvanceRequest:
		return string(r.GetTopic().GetTopicId())
	case *dedupv1.GetTableRequest:
		return r.GetStateEpoch()
	case *dedupv1.UpdateTagsRequest:
		return r.GetStateEpoch()
	case *dedupv1.GetManifestGroupRequest:
		return r.GetName()
	case *dedupv1.DescribeDataFileRequest:
		return ofObject(r.GetObjectKey())
	case *dedupv1.ReadDeletesRequest:
		return ofObject(r.GetObjectKey())
	case *catalogv1.LoadTableRequest:
		return r.GetTable()
	case *catalogv1.UpdateTagsRequest:
		return r.GetTable()
	case *catalogv1.ReadMetadataRequest:
		return ofObject(r.GetObjectKey())
	}
	return ""
}

// ofObject is the region of a data or delete file, and the table of a metadata object. What is no name of ours is
// refused by whoever gets it.
func ofObject(key string) string {
	obj, err := objectname.Parse(key)
	if err != nil {
		return key
	}
	switch o := obj.(type) {
	case objectname.DataFile:
		return region(o.Table.Epoch, o.View, o.Partition, o.Range.Start)
	case objectname.Deletes:
		return region(o.Data.Table.Epoch, o.Data.View, o.Data.Partition, o.Data.Range.Start)
	case objectname.Metadata:
		return o.Table.Name
	}
	return key
}

func region(stateEpoch, view string, p kafkapos.Partition, start kafkapos.Offset) string {
	return stateEpoch + "/" + view + "/" + strconv.Itoa(int(p)) + "/" + strconv.FormatInt(int64(start>>regionLog2), 10)
}
