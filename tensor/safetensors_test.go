package tensor

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"os"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// file joins a header and elements in the format, by hand.
func file(header string, data ...byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestSafetensorsRoundTrip(t *testing.T) {
	for _, c := range []struct {
		d    Dict
		meta map[string]string
	}{
		{Dict{}, nil},
		{sample(), nil},
		{sample(), map[string]string{"format": "rlinf", "step": "12", "": "empty \x00 key"}},
	} {
		var b bytes.Buffer
		test.OK(t, WriteSafetensors(&b, c.d, c.meta))
		if n := 8 + binary.LittleEndian.Uint64(b.Bytes()); n%Align != 0 {
			t.Errorf("elements start at %d", n)
		}
		got, meta, err := ReadSafetensors(b.Bytes())
		test.OK(t, err)
		same(t, got, c.d)
		if !maps.Equal(meta, c.meta) {
			t.Errorf("metadata %v, want %v", meta, c.meta)
		}
		var again bytes.Buffer
		if err := WriteSafetensors(&again, got, meta); err != nil || !bytes.Equal(again.Bytes(), b.Bytes()) {
			t.Errorf("written again it differs, %v", err)
		}
	}
}

// testdata/golden.safetensors was written by the stand-alone script beside it, from the description of the format.
func TestSafetensorsGolden(t *testing.T) {
	b, err := os.ReadFile("testdata/golden.safetensors")
	test.OK(t, err)
	d, meta, err := ReadSafetensors(b)
	test.OK(t, err)
	listed := "{model.0.weight: F32[2 3], model.0.scale: BF16[2], stats.mean: F64[], steps: I64[1], codes: I32[2], " +
		"mask: U8[3], empty: F32[0 2]}"
	if got := d.String(); got != listed {
		t.Fatalf("%s, want %s", got, listed)
	}
	if len(meta) != 1 || meta["made by"] != "golden.py" {
		t.Errorf("metadata %v", meta)
	}
	var want Dict
	want.Set("model.0.weight", FromF32([]float32{0, 1, 2, 3, 4, -0.5}, 2, 3))
	half := New(BF16, 2)
	ToBF16(half.BF16(), []float32{1, -2})
	want.Set("model.0.scale", half)
	want.Set("stats.mean", FromF64([]float64{0.1}))
	want.Set("steps", FromI64([]int64{-1}, 1))
	want.Set("codes", FromI32([]int32{7, -8}, 2))
	want.Set("mask", FromU8([]byte{1, 0, 255}, 3))
	want.Set("empty", New(F32, 0, 2))
	same(t, d, want)
}

// WriteSafetensors writes the described format, byte for byte.
func TestSafetensorsBytes(t *testing.T) {
	var d Dict
	d.Set("a", FromU8([]byte{7}, 1))
	d.Set("b.c", FromI32([]int32{1, -2}, 2, 1))
	var b bytes.Buffer
	test.OK(t, WriteSafetensors(&b, d, map[string]string{"k": "v"}))
	header := `{"__metadata__":{"k":"v"},"a":{"dtype":"U8","shape":[1],"data_offsets":[8,9]},` +
		`"b.c":{"dtype":"I32","shape":[2,1],"data_offsets":[0,8]}}`
	header += strings.Repeat(" ", 184-len(header)) // 8 + 184 = 3·64
	if want := file(header, 1, 0, 0, 0, 254, 255, 255, 255, 7); !bytes.Equal(b.Bytes(), want) {
		t.Errorf("got\n%q, want\n%q", b.Bytes(), want)
	}
}

// A badFile is a file that cannot be read, and a part of the error.
type badFile struct {
	want string
	b    []byte
}

func checkRefused(t *testing.T, cases []badFile) {
	t.Helper()
	for _, c := range cases {
		if d, _, err := ReadSafetensors(c.b); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, %v; want %s", c.b, d, err, c.want)
		}
	}
}

func TestSafetensorsRefusesHeaders(t *testing.T) {
	checkRefused(t, []badFile{
		{"cut off before the header", []byte{1, 2}},
		{"not a safetensors file?", []byte("#!/bin/sh and more")},
		{"cut off in the header of 100 bytes", binary.LittleEndian.AppendUint64(nil, 100)},
		{"expected a JSON object", file("")},
		{"expected a JSON object", file("[]")},
		{"expected a JSON object", file(` {}`)},
		{"expected a JSON object", file("\xff\xfe")},
		{"more than one JSON object", file("{}{}")},
		{"header: ", file(`{"a":`)},
		{"header: ", file(`{"a" 1}`)},
		{"__metadata__: ", file(`{"__metadata__":{"a":1}}`)},
	})
}

func TestSafetensorsRefusesTensors(t *testing.T) {
	four := []byte{0, 0, 0, 0}
	checkRefused(t, []badFile{
		{`"a": `, file(`{"a":[]}`)},
		{`"a": dtype "", expected one of F32, F64, I32, I64, U8, BF16`, file(`{"a":null}`)},
		{`"a": dtype "F8", expected one of F32`, file(`{"a":{"dtype":"F8","shape":[2],"data_offsets":[0,4]}}`,
			four...)},
		{`"a": shape of 7 dimensions`, file(`{"a":{"dtype":"F32","shape":[1,1,1,1,1,1,1],"data_offsets":[0,4]}}`,
			four...)},
		{`"a": shape of 0 dimensions`, file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, four...)},
		{`"a": `, file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, four...)},
		{`"a": `, file(`{"a":{"dtype":"F32","shape":[99999999999999999999],"data_offsets":[0,4]}}`, four...)},
		{"not those of F32[2]", file(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, four...)},
		{"not those of F32[-1]", file(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}`, four...)},
		{"not those of", file(`{"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}}`, four...)},
		{"not those of", file(`{"a":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}}`)},
	})
}

func TestSafetensorsRefusesOffsets(t *testing.T) {
	four := []byte{0, 0, 0, 0}
	checkRefused(t, []badFile{
		{"data_offsets [], expected", file(`{"a":{"dtype":"F32","shape":[1]}}`, four...)},
		{"data_offsets [0], expected", file(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0]}}`)},
		{"data_offsets [0 4 9], expected", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4,9]}}`, four...)},
		{"data_offsets [4 0], expected", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}`, four...)},
		{"data_offsets [-4 0], expected", file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, four...)},
		{"describes 4 bytes of elements, there are 3",
			file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0)},
		{"describes 4 bytes of elements, there are 5",
			file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 0, 0, 0, 0, 0)},
		{"describes 0 bytes of elements, there are 4", file(`{}`, four...)},
		{`"a": starts at 4, the one before it ends at 0`,
			file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[4,5]}}`, 0, 0, 0, 0, 0)},
		{`"b": starts at 1, the one before it ends at 2`,
			file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},`+
				`"b":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}}`, 0, 0, 0)},
		{`"b": starts at 0, the one before it ends at 2`,
			file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},`+
				`"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}`, 0, 0)},
		{`"a": occurs twice`,
			file(`{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},`+
				`"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}`, 0, 0)},
	})
}

// A file that is cut off anywhere is refused.
func TestSafetensorsCutOff(t *testing.T) {
	var whole bytes.Buffer
	test.OK(t, WriteSafetensors(&whole, sample(), nil))
	for n := range whole.Len() {
		if _, _, err := ReadSafetensors(whole.Bytes()[:n]); err == nil {
			t.Fatalf("%d of %d bytes were read", n, whole.Len())
		}
	}
}

// A full disk, at any byte.
func TestSafetensorsReportsWriteErrors(t *testing.T) {
	var whole bytes.Buffer
	test.OK(t, WriteSafetensors(&whole, sample(), nil))
	for n := range whole.Len() {
		if err := WriteSafetensors(&limited{n}, sample(), nil); !errors.Is(err, errFull) {
			t.Fatalf("with room for %d of %d bytes: %v", n, whole.Len(), err)
		}
	}
	var d Dict
	d.Set("__metadata__", New(U8, 1))
	test.Fails(t, WriteSafetensors(&whole, d, nil), `"__metadata__"`, "a tensor with the name of the metadata")
}

var errFull = errors.New("full")

type limited struct{ left int }

func (l *limited) Write(b []byte) (int, error) {
	if len(b) > l.left {
		return l.left, errFull
	}
	l.left -= len(b)
	return len(b), nil
}

// Whatever ReadSafetensors accepts can be written and read again, the same.
func FuzzReadSafetensors(f *testing.F) {
	var b bytes.Buffer
	if err := WriteSafetensors(&b, sample(), map[string]string{"k": "v"}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(file("{}"))
	f.Add(file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},`+
		`"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}`, 1, 2, 3, 4))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, meta, err := ReadSafetensors(b)
		if err != nil {
			return
		}
		var again bytes.Buffer
		test.OK(t, WriteSafetensors(&again, d, meta))
		got, _, err := ReadSafetensors(again.Bytes())
		test.OK(t, err)
		same(t, got, d)
	})
}
