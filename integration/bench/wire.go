package bench

import (
	"encoding/binary"
	"math"
	"strconv"

	"github.com/frazil-io/frazil/libs/registry/registrytest"
)

// format is how the events are written: as Debezium's envelope with before, after and source.
type format string

const (
	formatJSON format = "json" // Kafka Connect's JsonConverter without schemas
	formatAvro format = "avro" // the Confluent wire format
)

// Ids of the Avro schemas.
const (
	valueSchemaID = 11
	keySchemaID   = 12
)

const (
	avroValue = `{"type":"record","name":"Envelope","namespace":"shop.public.orders","fields":[` +
		`{"name":"before","type":["null",{"type":"record","name":"Value","fields":[` +
		`{"name":"id","type":"long"},` +
		`{"name":"status","type":"string"},` +
		`{"name":"customer","type":"string"},` +
		`{"name":"tracking","type":{"type":"string","connect.version":1,"connect.name":"io.debezium.data.Uuid"}},` +
		`{"name":"note","type":["null","string"],"default":null},` +
		`{"name":"amount","type":{"type":"bytes","scale":2,"precision":12,"connect.version":1,"connect.parameters":` +
		`{"scale":"2","connect.decimal.precision":"12"},"connect.name":"org.apache.kafka.connect.data.Decimal","logicalType":"decimal"}},` +
		`{"name":"updated_at","type":{"type":"long","connect.version":1,"connect.name":"io.debezium.time.MicroTimestamp"}},` +
		`{"name":"qty","type":["null","int"],"default":null},` +
		`{"name":"gift","type":"boolean"},` +
		`{"name":"weight","type":"double"}],"connect.name":"shop.public.orders.Value"}],"default":null},` +
		`{"name":"after","type":["null","Value"],"default":null},` +
		`{"name":"source","type":{"type":"record","name":"Source","namespace":"io.debezium.connector.postgresql","fields":[` +
		`{"name":"version","type":"string"},{"name":"connector","type":"string"},{"name":"name","type":"string"},` +
		`{"name":"ts_ms","type":"long"},` +
		`{"name":"snapshot","type":[{"type":"string","connect.version":1,"connect.parameters":{"allowed":"true,first,last,false,incremental"},` +
		`"connect.default":"false","connect.name":"io.debezium.data.Enum"},"null"],"default":"false"},` +
		`{"name":"db","type":"string"},{"name":"sequence","type":["null","string"],"default":null},` +
		`{"name":"ts_us","type":["null","long"],"default":null},{"name":"ts_ns","type":["null","long"],"default":null},` +
		`{"name":"schema","type":"string"},{"name":"table","type":"string"},` +
		`{"name":"txId","type":["null","long"],"default":null},{"name":"lsn","type":["null","long"],"default":null},` +
		`{"name":"xmin","type":["null","long"],"default":null}],"connect.version":1,"connect.name":"io.debezium.connector.postgresql.Source"}},` +
		`{"name":"transaction","type":["null",{"type":"record","name":"block","namespace":"event","fields":[{"name":"id","type":"string"},` +
		`{"name":"total_order","type":"long"},{"name":"data_collection_order","type":"long"}],"connect.version":1,"connect.name":"event.block"}],` +
		`"default":null},` +
		`{"name":"op","type":"string"},{"name":"ts_ms","type":["null","long"],"default":null},{"name":"ts_us","type":["null","long"],"default":null},` +
		`{"name":"ts_ns","type":["null","long"],"default":null}],"connect.version":2,"connect.name":"shop.public.orders.Envelope"}`
	avroKey = `{"type":"record","name":"Key","namespace":"shop.public.orders","fields":[{"name":"id","type":"long"}],"connect.name":"shop.public.orders.Key"}`
)

// registryOf serves the schemas of a topic of Avro events.
func registryOf(topics ...string) *registrytest.Handler {
	var entries []registrytest.Entry
	for _, topic := range topics {
		entries = append(entries,
			registrytest.Entry{Subject: topic + "-value", Version: 1, ID: valueSchemaID, Schema: avroValue},
			registrytest.Entry{Subject: topic + "-key", Version: 1, ID: keySchemaID, Schema: avroKey})
	}
	return registrytest.New(entries...)
}

// appendKey writes the key of a record.
func (f format) appendKey(b []byte, e *event) []byte {
	if f == formatAvro {
		return binary.AppendVarint(confluent(b, keySchemaID), e.key)
	}
	return append(strconv.AppendInt(append(b, `{"id":`...), e.key, 10), '}')
}

// appendValue writes the value of a record that is no tombstone.
func (f format) appendValue(b []byte, e *event) []byte {
	if f == formatAvro {
		return appendAvro(b, e)
	}
	return appendJSON(b, e)
}

func op(e *event) byte {
	switch {
	case e.before == nil:
		return 'c'
	case e.after == nil:
		return 'd'
	}
	return 'u'
}

func appendJSON(b []byte, e *event) []byte {
	number := func(name string, v int64) {
		b = strconv.AppendInt(append(b, name...), v, 10)
	}
	b = appendRowJSON(append(b, `{"before":`...), e.before)
	b = appendRowJSON(append(b, `,"after":`...), e.after)
	number(`,"source":{"version":"3.6.1.Final","connector":"postgresql","name":"shop","ts_ms":`, e.at/1000)
	number(`,"snapshot":"false","db":"shop","sequence":"[\"`, 33_402_184+e.transaction*96)
	number(`\",\"`, 33_402_280+e.transaction*96)
	number(`\"]","ts_us":`, e.at)
	number(`,"ts_ns":`, e.at*1000)
	number(`,"schema":"public","table":"orders","txId":`, e.transaction)
	number(`,"lsn":`, 33_402_280+e.transaction*96)
	b = append(b, `,"xmin":null},"transaction":null,"op":"`...)
	b = append(b, op(e))
	number(`","ts_ms":`, e.at/1000+340)
	number(`,"ts_us":`, e.at+340_217)
	number(`,"ts_ns":`, (e.at+340_217)*1000+533)
	return append(b, '}')
}

func appendRowJSON(b []byte, o *order) []byte {
	if o == nil {
		return append(b, "null"...)
	}
	b = strconv.AppendInt(append(b, `{"id":`...), o.id, 10)
	b = append(append(b, `,"status":"`...), o.status()...)
	b = o.appendCustomer(append(b, `","customer":"`...))
	b = o.appendTracking(append(b, `","tracking":"`...))
	b = o.appendNote(append(b, `","note":"`...))
	b = strconv.AppendFloat(append(b, `","amount":`...), float64(o.cents())/100, 'f', 2, 64)
	b = strconv.AppendInt(append(b, `,"updated_at":`...), o.at, 10)
	b = append(b, `,"qty":`...)
	if n, ok := o.qty(); ok {
		b = strconv.AppendInt(b, n, 10)
	} else {
		b = append(b, "null"...)
	}
	b = strconv.AppendBool(append(b, `,"gift":`...), o.gift())
	b = strconv.AppendFloat(append(b, `,"weight":`...), float64(o.grams())/1000, 'f', 3, 64)
	return append(b, '}')
}

func confluent(b []byte, id uint32) []byte {
	return binary.BigEndian.AppendUint32(append(b, 0), id)
}

func appendAvro(b []byte, e *event) []byte {
	text := func(v string) { b = append(binary.AppendVarint(b, int64(len(v))), v...) }
	long := func(v int64) { b = binary.AppendVarint(b, v) }
	some := func(v int64) { b = binary.AppendVarint(append(b, 2), v) } // the second branch of a union
	b = appendRowAvro(confluent(b, valueSchemaID), e.before)
	b = appendRowAvro(b, e.after)
	text("3.6.1.Final")
	text("postgresql")
	text("shop")
	long(e.at / 1000)
	b = append(b, 0)
	text("false")
	text("shop")
	b = append(b, 2)
	text(`["` + strconv.FormatInt(33_402_184+e.transaction*96, 10) + `","` + strconv.FormatInt(33_402_280+e.transaction*96, 10) + `"]`)
	some(e.at)
	some(e.at * 1000)
	text("public")
	text("orders")
	some(e.transaction)
	some(33_402_280 + e.transaction*96)
	b = append(b, 0, 0) // xmin, transaction
	text(string(op(e)))
	some(e.at/1000 + 340)
	some(e.at + 340_217)
	some((e.at+340_217)*1000 + 533)
	return b
}

func appendRowAvro(b []byte, o *order) []byte {
	if o == nil {
		return append(b, 0)
	}
	b = binary.AppendVarint(append(b, 2), o.id)
	var scratch [128]byte
	text := func(v []byte) { b = append(binary.AppendVarint(b, int64(len(v))), v...) }
	text(append(scratch[:0], o.status()...))
	text(o.appendCustomer(scratch[:0]))
	text(o.appendTracking(scratch[:0]))
	b = append(b, 2)
	text(o.appendNote(scratch[:0]))
	text(decimalBytes(scratch[:0], o.cents()))
	b = binary.AppendVarint(b, o.at)
	if n, ok := o.qty(); ok {
		b = binary.AppendVarint(append(b, 2), n)
	} else {
		b = append(b, 0)
	}
	gift := byte(0)
	if o.gift() {
		gift = 1
	}
	b = append(b, gift)
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(o.grams())/1000))
}

// decimalBytes is a number that is not negative in the shortest big-endian two's complement.
func decimalBytes(b []byte, v int64) []byte {
	var all [8]byte
	binary.BigEndian.PutUint64(all[:], uint64(v))
	i := 0
	for i < 7 && all[i] == 0 && all[i+1] < 0x80 {
		i++
	}
	return append(b, all[i:]...)
}
