package tensor

import (
	"bytes"
	"encoding/binary"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// sample has every type, an empty tensor, a scalar, and names of all sorts.
func sample() Dict {
	var d Dict
	d.Set("flags", FromU8([]byte{1, 0, 1}, 3))
	d.Set("observation.state", ramp(2, 3))
	d.Set("mean", FromF64([]float64{1.5, -2}, 2))
	d.Set("action", FromI32([]int32{-1, 7}, 2, 1, 1))
	d.Set("counters", FromI64([]int64{1 << 40}))
	half := New(BF16, 3)
	copy(half.BF16(), []uint16{0x3f80, 0x4000, 0xc040})
	d.Set("weights", half)
	d.Set("nothing", New(F32, 0, 4))
	d.Set(`a "quoted" name, 中文 <&>`, FromU8([]byte{9}, 1))
	return d
}

// same reports how two Dicts differ; order of entries counts.
func same(t *testing.T, got, want Dict) {
	t.Helper()
	if got.String() != want.String() {
		t.Fatalf("got %v, want %v", got, want)
	}
	for i := range want.Len() {
		name, x := want.Entry(i)
		if !bytes.Equal(got.Must(name).Bytes(), x.Bytes()) {
			t.Errorf("%s: elements differ", name)
		}
	}
}

func TestEncodeDecode(t *testing.T) {
	for _, d := range []Dict{{}, sample()} {
		b := Encode([]byte("before"), d)[len("before"):]
		got := test.Must(Decode(b))(t)
		clear(b) // the memory is not shared
		same(t, got, d)
	}
}

func TestDecodeRefuses(t *testing.T) {
	whole := Encode(nil, sample())
	for n := range whole { // cut anywhere
		if _, err := Decode(whole[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read", n, len(whole))
		}
	}
	entry := func(dtype DType, name string, dims ...uint64) []byte {
		b := append([]byte{byte(dtype), byte(len(dims)), byte(len(name)), 0}, name...)
		for _, d := range dims {
			b = binary.LittleEndian.AppendUint64(b, d)
		}
		return b
	}
	with := func(entries ...[]byte) []byte {
		b := binary.LittleEndian.AppendUint32([]byte("RLD1"), uint32(len(entries)))
		return append(b, bytes.Join(entries, nil)...)
	}
	for _, c := range []struct {
		want string
		b    []byte
	}{
		{`starts with "RLD2", expected "RLD1"`, []byte("RLD2\x00\x00\x00\x00")},
		{"1 bytes after the last tensor", append(bytes.Clone(whole), 0)},
		{`"x": no such dtype 8`, with(entry(8, "x", 0))},
		{`"x": occurs twice`, with(entry(F32, "x", 0), entry(F32, "x", 0))},
		{`"x": 7 dimensions, at most 6`, with(entry(F32, "x", 1, 1, 1, 1, 1, 1, 1))},
		{"larger than the data", with(entry(F32, "x", 1<<62, 4))},
		{"larger than the data", with(entry(F32, "x", 1<<63, 0))},
		{"larger than the data", with(entry(U8, "x", 1000))},
		{"larger than the data", with(entry(F32, "x", 0, 1<<62, 1<<62))},
		{"larger than the data", with(entry(U8, "x", 30), entry(U8, "y", 30))}, // 34 bytes: either, but not both
		{"cut off in the header", []byte("RLD1\xff\xff\xff\xff")},
	} {
		test.Fails(t, test.Err(Decode(c.b)), c.want, "%q", c.b)
	}
}

// Encode writes what Decode accepted, byte for byte.
func FuzzDecode(f *testing.F) {
	f.Add(Encode(nil, sample()))
	f.Add(Encode(nil, Dict{}))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, err := Decode(b)
		if err != nil {
			return
		}
		if again := Encode(nil, d); !bytes.Equal(again, b) {
			t.Errorf("read %q, writes %q", b, again)
		}
	})
}
