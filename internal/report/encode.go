package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// A packer collects the arrays of a page's document.
type packer struct{ data []byte }

// An array refers to numbers in the packer. page/data.js replaces each array in the document by a typed array.
type array struct {
	Type string `json:"$"`  // f64, f32, u32, i32, u16 or u8
	At   int    `json:"at"` // offset of the first byte
	N    int    `json:"n"`  // number of numbers
}

func (p *packer) f64(x []float64) array {
	return pack(p, "f64", x, 8, func(v float64) uint64 { return math.Float64bits(v) })
}

// f32 packs the numbers in x, rounded to 32 bits.
func (p *packer) f32(x []float64) array {
	return pack(p, "f32", x, 4, func(v float64) uint64 { return uint64(math.Float32bits(float32(v))) })
}

func (p *packer) u32(x []uint32) array {
	return pack(p, "u32", x, 4, func(v uint32) uint64 { return uint64(v) })
}

func (p *packer) i32(x []int32) array {
	return pack(p, "i32", x, 4, func(v int32) uint64 { return uint64(uint32(v)) })
}

func (p *packer) u16(x []uint16) array {
	return pack(p, "u16", x, 2, func(v uint16) uint64 { return uint64(v) })
}

func (p *packer) u8(x []uint8) array {
	return pack(p, "u8", x, 1, func(v uint8) uint64 { return uint64(v) })
}

// pack appends the first bytes of all numbers, then the second bytes, and so on. gzip compresses this order better.
func pack[T any](p *packer, kind string, x []T, size int, bits func(T) uint64) array {
	a := array{kind, len(p.data), len(x)}
	p.data = append(p.data, make([]byte, len(x)*size)...)
	to := p.data[a.At:]
	for i, v := range x {
		b := bits(v)
		for k := range size {
			to[k*len(x)+i] = byte(b >> (8 * k))
		}
	}
	return a
}

// encode returns the document and its arrays as text for the page: the length of the JSON in 4 bytes, the JSON, and the
// arrays, compressed by gzip and encoded in base64. Base64 has no <, so no text of a run can end the HTML element of
// the data.
func (p *packer) encode(document any) ([]byte, error) {
	text, err := json.Marshal(document)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	out := gzip.NewWriter(&b) // the header has neither a name nor a time
	head := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	for _, part := range [][]byte{head, text, p.data} {
		if _, err := out.Write(part); err != nil {
			return nil, err
		}
	}
	if err := out.Close(); err != nil {
		return nil, err
	}
	return base64.StdEncoding.AppendEncode(nil, b.Bytes()), nil
}
