package tensor

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// The safetensors format (github.com/huggingface/safetensors, "Format"): the length of the header as u64, the header in
// JSON, then the elements, little-endian. The header has {dtype, shape, data_offsets: [begin, end]} for each tensor.
// Offsets count from the end of the header. The tensors leave no gap and do not overlap. The key __metadata__ may hold
// a map of strings.
const (
	metadataKey = "__metadata__"
	maxHeader   = 100_000_000 // bytes, the limit of the reference library
)

// WriteSafetensors writes d and metadata to w as a safetensors file. metadata may be empty. In the file, the first
// tensor is aligned to Align bytes, and each tensor to the size of its elements. Dicts with equal entries in the same
// order give equal bytes.
func WriteSafetensors(w io.Writer, d Dict, metadata map[string]string) error {
	fields := make([]Field, d.Len())
	for i, name := range d.names {
		t := d.tensors[i]
		if t.IsZero() {
			return fmt.Errorf("write safetensors: tensor %q: %v: no such tensor can be written", name, t)
		}
		fields[i] = Field{Name: name, DType: t.DType(), Shape: t.Shape()}
	}
	order, err := WriteSafetensorsHeader(w, fields, metadata)
	if err != nil {
		return err
	}
	for _, i := range order {
		if _, err := w.Write(d.tensors[i].Bytes()); err != nil {
			return fmt.Errorf("write safetensors: tensor %q: %w", d.names[i], err)
		}
	}
	return nil
}

// WriteSafetensorsHeader writes the length and the header of a safetensors file to w. It returns the order in which the
// caller must then write the elements, as indices of fields. The caller can write one field at a time, so the file can
// be larger than memory.
func WriteSafetensorsHeader(w io.Writer, fields []Field, metadata map[string]string) (order []int, err error) {
	order = make([]int, len(fields)) // wide elements come first, so that all tensors are aligned without gaps
	for i, f := range fields {
		if f.Name == metadataKey {
			return nil, fmt.Errorf("write safetensors: tensor %q: no such tensor can be written", f.Name)
		}
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return fields[b].DType.Size() - fields[a].DType.Size() })
	begin, end := make([]int, len(fields)), 0
	for _, i := range order {
		begin[i] = end
		end += fields[i].Bytes()
	}

	var header bytes.Buffer
	header.WriteByte('{')
	entry := func(key string, value any) error {
		if header.Len() > 1 {
			header.WriteByte(',')
		}
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		header.Write(k)
		header.WriteByte(':')
		header.Write(v)
		return err
	}
	if len(metadata) > 0 {
		if err := entry(metadataKey, metadata); err != nil {
			return nil, fmt.Errorf("write safetensors: metadata: %w", err)
		}
	}
	for i, f := range fields {
		e := safetensor{DType: f.DType.String(), Shape: append([]int{}, f.Shape...),
			Offsets: []int{begin[i], begin[i] + f.Bytes()}}
		if err := entry(f.Name, e); err != nil {
			return nil, fmt.Errorf("write safetensors: tensor %q: %w", f.Name, err)
		}
	}
	header.WriteByte('}')
	for (8+header.Len())%Align != 0 {
		header.WriteByte(' ')
	}
	if header.Len() > maxHeader {
		return nil, fmt.Errorf("write safetensors: header of %d bytes, at most %d", header.Len(), maxHeader)
	}
	if _, err := w.Write(binary.LittleEndian.AppendUint64(nil, uint64(header.Len()))); err != nil {
		return nil, fmt.Errorf("write safetensors: %w", err)
	}
	if _, err := w.Write(header.Bytes()); err != nil {
		return nil, fmt.Errorf("write safetensors: %w", err)
	}
	return order, nil
}

// A safetensor is the header's entry for one tensor.
type safetensor struct {
	DType   string `json:"dtype"`
	Shape   []int  `json:"shape"`
	Offsets []int  `json:"data_offsets"`
}

// ReadSafetensors returns copies of the tensors in b, in the order of the header, and the metadata. b must be a whole
// safetensors file. The file may come from an untrusted source: ReadSafetensors returns an error if b breaks the
// format, or has a type or a number of dimensions that a Tensor cannot have.
func ReadSafetensors(b []byte) (Dict, map[string]string, error) {
	r, err := NewSafetensorsReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return Dict{}, nil, err
	}
	d := newDict(r.Fields)
	for i, t := range d.tensors {
		copy(t.Bytes(), b[r.base+int64(r.offsets[i][0]):])
	}
	return d, r.Metadata, nil
}

// parseHeader returns the entries of the tensors, in the order of the header. It validates each entry on its own.
// checkOffsets then validates the offsets of all entries together.
func parseHeader(header []byte) (fields []Field, offsets [][2]int, metadata map[string]string, err error) {
	in := json.NewDecoder(bytes.NewReader(header))
	if open, err := in.Token(); err != nil || open != json.Delim('{') || header[0] != '{' {
		return nil, nil, nil, fmt.Errorf("starts with %.16q, expected a JSON object", header)
	}
	seen := make(map[string]bool)
	for in.More() {
		token, err := in.Token()
		if err != nil {
			return nil, nil, nil, err
		}
		name := token.(string) // the decoder allows only strings as keys
		if seen[name] {
			return nil, nil, nil, fmt.Errorf("tensor %q: occurs twice", name)
		}
		seen[name] = true
		if name == metadataKey {
			if err := in.Decode(&metadata); err != nil {
				return nil, nil, nil, fmt.Errorf("%s: %w", metadataKey, err)
			}
			continue
		}
		var e safetensor
		if err := in.Decode(&e); err != nil {
			return nil, nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		f, err := e.field(name)
		if err != nil {
			return nil, nil, nil, fmt.Errorf("tensor %q: %w", name, err)
		}
		fields = append(fields, f)
		offsets = append(offsets, [2]int{e.Offsets[0], e.Offsets[1]})
	}
	if _, err := in.Token(); err != nil { // the closing brace
		return nil, nil, nil, err
	}
	if _, err := in.Token(); err != io.EOF {
		return nil, nil, nil, errors.New("more than one JSON object")
	}
	return fields, offsets, metadata, nil
}

// field validates e and returns it as a Field.
func (e *safetensor) field(name string) (Field, error) {
	f := Field{Name: name, Shape: e.Shape}
	var known []string
	for dtype := F32; dtype.valid(); dtype++ {
		known = append(known, dtype.String())
		if e.DType == dtype.String() {
			f.DType = dtype
		}
	}
	if f.DType == 0 {
		return f, fmt.Errorf("dtype %.16q, expected one of %s", e.DType, strings.Join(known, ", "))
	}
	if e.Shape == nil || len(e.Shape) > MaxRank {
		return f, fmt.Errorf("shape of %d dimensions, expected at most %d", len(e.Shape), MaxRank)
	}
	if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] {
		return f, fmt.Errorf("data_offsets %v, expected [begin, end]", e.Offsets)
	}
	if size, ok := sizeOf(f.DType, e.Shape); !ok || size != e.Offsets[1]-e.Offsets[0] {
		return f, fmt.Errorf("data_offsets %v are not those of %v%v", e.Offsets, f.DType, e.Shape)
	}
	return f, nil
}

// checkOffsets returns an error unless the tensors fill exactly size bytes, without gaps or overlaps.
func checkOffsets(fields []Field, offsets [][2]int, size int) error {
	order := make([]int, len(fields))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(offsets[a][0], offsets[b][0]), cmp.Compare(offsets[a][1], offsets[b][1]))
	})
	end := 0
	for _, i := range order {
		if begin := offsets[i][0]; begin != end {
			return fmt.Errorf("tensor %q: starts at %d, the one before it ends at %d", fields[i].Name, begin, end)
		}
		end = offsets[i][1]
	}
	if end != size {
		return fmt.Errorf("the header describes %d bytes of elements, there are %d", end, size)
	}
	return nil
}
