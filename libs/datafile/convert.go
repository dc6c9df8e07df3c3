package datafile

import (
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/frazil-io/frazil/libs/fault"
)

// converter appends the encoded form of a value that is not null.
type converter func(to []byte, v *parquet.Value) ([]byte, error)

// converterOf answers how values of a Parquet type become those of a family, and how its limits become Iceberg's.
// Errors: fault.ErrUnsupported for a pair that Iceberg's rules of promotion do not have.
func converterOf(t parquet.Type, k kind) (converter, func(parquet.Value) []byte, error) {
	physical := t.Kind()
	var logical any
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	switch k {
	case kindBool:
		if physical == parquet.Boolean {
			return convertBool, nil, nil
		}
	case kindInt:
		return convertInts(physical, logical)
	case kindMicros, kindNanos:
		return convertInstants(physical, logical, k)
	case kindReal:
		switch physical { //nolint:exhaustive // other pairs are refused
		case parquet.Float:
			return func(to []byte, v *parquet.Value) ([]byte, error) { return appendReal(to, float64(v.Float())), nil }, nil, nil
		case parquet.Double:
			return func(to []byte, v *parquet.Value) ([]byte, error) { return appendReal(to, v.Double()), nil }, nil, nil
		}
	case kindBytes:
		if physical == parquet.ByteArray || physical == parquet.FixedLenByteArray {
			return convertBlob, func(v parquet.Value) []byte { return v.Bytes() }, nil
		}
	case kindDecimal:
		switch physical { //nolint:exhaustive // other pairs are refused
		case parquet.Int32:
			return func(to []byte, v *parquet.Value) ([]byte, error) { return appendUnscaledInt(to, int64(v.Int32())), nil }, nil, nil
		case parquet.Int64:
			return func(to []byte, v *parquet.Value) ([]byte, error) { return appendUnscaledInt(to, v.Int64()), nil }, nil, nil
		case parquet.ByteArray, parquet.FixedLenByteArray:
			return func(to []byte, v *parquet.Value) ([]byte, error) { return appendUnscaled(to, v.ByteArray()), nil }, nil, nil
		}
	}
	return nil, nil, unsuitable(t)
}

func unsuitable(t parquet.Type) error {
	return fmt.Errorf("the file has it as %s, which is no form of its type: %w", t, fault.ErrUnsupported)
}

func convertBool(to []byte, v *parquet.Value) ([]byte, error) {
	if v.Boolean() {
		return appendInt(to, 1), nil
	}
	return appendInt(to, 0), nil
}

func convertBlob(to []byte, v *parquet.Value) ([]byte, error) {
	return appendBlob(to, v.ByteArray()), nil
}

func int32Stats(v parquet.Value) []byte {
	return binary.LittleEndian.AppendUint32(nil, uint32(v.Int32()))
}
func int64Stats(v parquet.Value) []byte {
	return binary.LittleEndian.AppendUint64(nil, uint64(v.Int64()))
}

func convertInts(physical parquet.Kind, logical any) (converter, func(parquet.Value) []byte, error) {
	scale := int64(1)
	switch l := logical.(type) {
	case *format.IntType:
		if !l.IsSigned {
			return nil, nil, fmt.Errorf("the file has it as an unsigned integer: %w", fault.ErrUnsupported)
		}
	case *format.TimeType:
		switch l.Unit.Value.(type) {
		case *format.MilliSeconds:
			scale = 1000
		case *format.NanoSeconds:
			return nil, nil, fmt.Errorf("the file has it as a time in nanoseconds: %w", fault.ErrUnsupported)
		}
	case *format.DecimalType, *format.TimestampType:
		return nil, nil, fmt.Errorf("the file has it as a decimal or a timestamp: %w", fault.ErrUnsupported)
	}
	switch physical { //nolint:exhaustive // other pairs are refused
	case parquet.Int32:
		stats := int32Stats
		if scale != 1 {
			stats = nil
		}
		return func(to []byte, v *parquet.Value) ([]byte, error) { return appendInt(to, scale*int64(v.Int32())), nil }, stats, nil
	case parquet.Int64:
		return func(to []byte, v *parquet.Value) ([]byte, error) { return appendInt(to, v.Int64()), nil }, int64Stats, nil
	}
	return nil, nil, fmt.Errorf("the file has it as %s: %w", physical, fault.ErrUnsupported)
}

// julianEpoch is the Julian day number of 1970-01-01.
const julianEpoch = 2440588

func convertInstants(physical parquet.Kind, logical any, k kind) (converter, func(parquet.Value) []byte, error) {
	scaled := func(scale int64) converter {
		return func(to []byte, v *parquet.Value) ([]byte, error) { return appendInt(to, scale*v.Int64()), nil }
	}
	switch physical { //nolint:exhaustive // other pairs are refused
	case parquet.Int32:
		if _, ok := logical.(*format.DateType); !ok {
			break
		}
		day := int64(dayMicros)
		if k == kindNanos {
			day = dayNanos
		}
		return func(to []byte, v *parquet.Value) ([]byte, error) { return appendInt(to, day*int64(v.Int32())), nil }, nil, nil
	case parquet.Int96:
		if k != kindMicros {
			break
		}
		return func(to []byte, v *parquet.Value) ([]byte, error) {
			n := v.Int96()
			return appendInt(to, (int64(n[2])-julianEpoch)*dayMicros+int64(uint64(n[1])<<32|uint64(n[0]))/1000), nil
		}, nil, nil
	case parquet.Int64:
		unit := int64(1000) // nanoseconds
		if logical == nil && k == kindNanos {
			break
		}
		if l, ok := logical.(*format.TimestampType); ok {
			switch l.Unit.Value.(type) {
			case *format.MilliSeconds:
				unit = 1_000_000
			case *format.NanoSeconds:
				unit = 1
			}
		}
		switch {
		case k == kindNanos && unit == 1, k == kindMicros && unit == 1000:
			return scaled(1), int64Stats, nil
		case k == kindNanos:
			return scaled(unit), nil, nil
		case unit == 1_000_000:
			return scaled(1000), nil, nil
		}
		return nil, nil, fmt.Errorf("the file has it in nanoseconds and the table in microseconds: %w", fault.ErrUnsupported)
	}
	return nil, nil, fmt.Errorf("the file has it as %s: %w", physical, fault.ErrUnsupported)
}
