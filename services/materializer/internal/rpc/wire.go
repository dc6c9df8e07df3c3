// Package rpc is the materializer's wire: the generated service in terms of build and serve. Wire types stop here.
package rpc

import (
	"context"
	"fmt"

	"github.com/frazil-io/frazil/libs/decode"
	"github.com/frazil-io/frazil/libs/fault"
	"github.com/frazil-io/frazil/libs/kafkalog"
	"github.com/frazil-io/frazil/libs/kafkapos"
	"github.com/frazil-io/frazil/libs/parquetio"
	frpc "github.com/frazil-io/frazil/libs/rpc"
	"github.com/frazil-io/frazil/libs/schema"
	dedupv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/dedup/v1"
	typesv1 "github.com/frazil-io/frazil/proto/gen/go/frazil/types/v1"
	"github.com/frazil-io/frazil/services/materializer/internal/build"
	"github.com/frazil-io/frazil/services/materializer/internal/serve"
)

func topicOf(t *typesv1.TopicRef) (kafkalog.Topic, error) {
	id, err := kafkapos.ParseTopicID(t.GetTopicId())
	if err != nil {
		return kafkalog.Topic{}, fmt.Errorf("%w: %w", err, fault.ErrInvalid)
	}
	if t.GetTopic() == "" {
		return kafkalog.Topic{}, fmt.Errorf("topic without a name: %w", fault.ErrInvalid)
	}
	return kafkalog.Topic{Name: t.GetTopic(), ID: id}, nil
}

func specOf(t *typesv1.TableSpec) (build.Spec, error) {
	topic, err := topicOf(t.GetTopic())
	if err != nil {
		return build.Spec{}, err
	}
	out := build.Spec{Topic: topic, Epoch: t.GetStateEpoch(), View: t.GetView(), Decoding: decodingOf(t.GetDecoding())}
	if copy(out.HashKey[:], t.GetHashKey()) != len(out.HashKey) || len(t.GetHashKey()) != len(out.HashKey) {
		return build.Spec{}, fmt.Errorf("hash key of %d bytes: %w", len(t.GetHashKey()), fault.ErrInvalid)
	}
	if out.Schema, err = schema.ParseJSON(t.GetSchemaJson()); err != nil {
		return build.Spec{}, err
	}
	return out, nil
}

func decodingOf(d *typesv1.Decoding) decode.Decoding {
	return decode.Decoding{
		KeyFormat: d.GetKeyFormat(), ValueFormat: d.GetValueFormat(), Envelope: d.GetEnvelope(), KeyFields: d.GetKeyFields(),
	}
}

func wireDecoding(d decode.Decoding) *typesv1.Decoding {
	return &typesv1.Decoding{KeyFormat: d.KeyFormat, ValueFormat: d.ValueFormat, Envelope: d.Envelope, KeyFields: d.KeyFields}
}

func rangeOf(r *typesv1.OffsetRange) kafkapos.Range {
	return kafkapos.Range{Start: kafkapos.Offset(r.GetStart()), End: kafkapos.Offset(r.GetEnd())}
}

func wireRange(r kafkapos.Range) *typesv1.OffsetRange {
	return &typesv1.OffsetRange{Start: int64(r.Start), End: int64(r.End)}
}

func wireRowGroup(rng kafkapos.Range, rg parquetio.RowGroup) *typesv1.RowGroup {
	out := &typesv1.RowGroup{
		Range: wireRange(rng), Rows: rg.Rows, SizeBytes: rg.SizeBytes, TailBytes: rg.TailBytes, Crc: rg.CRC,
	}
	for _, c := range rg.Columns {
		out.Columns = append(out.Columns, &typesv1.ColumnBounds{
			FieldId: c.FieldID, Lower: c.Lower, Upper: c.Upper, ValueCount: c.ValueCount, NullCount: c.NullCount,
		})
	}
	return out
}

// Describer asks dedup.
type Describer struct{ Client dedupv1.DedupServiceClient }

// Describe implements serve.Describer.
func (d Describer) Describe(ctx context.Context, objectKey string) (serve.Description, error) {
	resp, err := d.Client.DescribeDataFile(ctx, &dedupv1.DescribeDataFileRequest{ObjectKey: objectKey})
	if err != nil {
		return serve.Description{}, frpc.Error(err)
	}
	out := serve.Description{}
	if out.Spec, err = specOf(resp.GetTable()); err != nil {
		return serve.Description{}, err
	}
	for _, g := range resp.GetRowGroups() {
		if g.GetRows() == 0 {
			continue
		}
		out.Groups = append(out.Groups, serve.Recorded{
			Range: rangeOf(g.GetRange()), Rows: g.GetRows(), SizeBytes: g.GetSizeBytes(), TailBytes: g.GetTailBytes(), CRC: g.GetCrc(),
		})
	}
	return out, nil
}
