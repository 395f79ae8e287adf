package export

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/rlinf/rlinf/tensor"
)

// A message is an encoded message of onnx.proto. Its methods append fields by their numbers.
type message []byte

func (m *message) int(field protowire.Number, x int64) {
	*m = protowire.AppendTag(*m, field, protowire.VarintType)
	*m = protowire.AppendVarint(*m, uint64(x))
}

func (m *message) text(field protowire.Number, s string) { m.bytes(field, []byte(s)) }

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendTag(*m, field, protowire.BytesType)
	*m = protowire.AppendBytes(*m, b)
}

// Types of elements in TensorProto.DataType.
var elementTypes = map[tensor.DType]int64{tensor.F32: 1, tensor.U8: 2, tensor.I32: 6, tensor.I64: 7}

const boolType = 9

// tensorProto returns a tensor with the given bytes, little endian.
func tensorProto(name string, elementType int64, dims []int, raw []byte) (m message) {
	for _, d := range dims {
		m.int(1, int64(d))
	}
	m.int(2, elementType)
	m.text(8, name)
	m.bytes(9, raw)
	return m
}

// An attribute of a node is an int, a float32, a text or a list of ints.
type attribute struct {
	name  string
	value any
}

func (a attribute) proto() (m message) {
	const float, integer, text, integers = 1, 2, 3, 7 // AttributeProto.AttributeType
	m.text(1, a.name)
	switch v := a.value.(type) {
	case float32:
		m = protowire.AppendTag(m, 2, protowire.Fixed32Type)
		m = protowire.AppendFixed32(m, math.Float32bits(v))
		m.int(20, float)
	case int:
		m.int(3, int64(v))
		m.int(20, integer)
	case string:
		m.text(4, v)
		m.int(20, text)
	case []int:
		for _, i := range v {
			m.int(8, int64(i))
		}
		m.int(20, integers)
	}
	return m
}

// valueInfo describes an input or output whose first dimension is the batch.
func valueInfo(name string, elementType int64, row []int) message {
	var shape, batch, of, kind, info message
	batch.text(2, "N")
	shape.bytes(1, batch)
	for _, d := range row {
		var dim message
		dim.int(1, int64(d))
		shape.bytes(1, dim)
	}
	of.int(1, elementType)
	of.bytes(2, shape)
	kind.bytes(1, of)
	info.text(1, name)
	info.bytes(2, kind)
	return info
}

// rawF32 and rawI64 return numbers as bytes, little endian.
func rawF32(x []float32) (raw []byte) {
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	return raw
}

func rawI64(x []int) (raw []byte) {
	for _, v := range x {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	return raw
}
