package tensor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
)

// A SafetensorsReader reads the tensors of a safetensors file one by one, so the file can be larger than memory.
type SafetensorsReader struct {
	Fields   []Field // in the order of the header
	Metadata map[string]string

	offsets [][2]int
	base    int64 // position of the elements in the file
	file    io.ReaderAt
}

// NewSafetensorsReader reads the header of a file of size bytes. The file may come from an untrusted
// source: the header is checked as in ReadSafetensors.
func NewSafetensorsReader(file io.ReaderAt, size int64) (*SafetensorsReader, error) {
	r := &SafetensorsReader{file: file}
	if err := r.readHeader(size); err != nil {
		return nil, fmt.Errorf("read safetensors from %d bytes: %w", size, err)
	}
	return r, nil
}

func (r *SafetensorsReader) readHeader(size int64) error {
	var prefix [8]byte
	if size < 8 {
		return errors.New("cut off before the header")
	}
	if _, err := r.file.ReadAt(prefix[:], 0); err != nil {
		return err
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if length > maxHeader {
		return fmt.Errorf("header of %d bytes, at most %d: not a safetensors file?", length, maxHeader)
	}
	if length > uint64(size-8) {
		return fmt.Errorf("cut off in the header of %d bytes", length)
	}
	header := make([]byte, length)
	if _, err := r.file.ReadAt(header, 8); err != nil && err != io.EOF {
		return err
	}
	var err error
	if r.Fields, r.offsets, r.Metadata, err = parseHeader(header); err != nil {
		return fmt.Errorf("header: %w", err)
	}
	r.base = 8 + int64(length)
	return checkOffsets(r.Fields, r.offsets, int(size-r.base))
}

// Index returns the index in Fields of the tensor with this name, or -1.
func (r *SafetensorsReader) Index(name string) int {
	return slices.IndexFunc(r.Fields, func(f Field) bool { return f.Name == name })
}

// ReadTensor fills dst with bytes of field i, starting offset bytes into the field.
func (r *SafetensorsReader) ReadTensor(i int, dst []byte, offset int) error {
	f := r.Fields[i]
	if offset < 0 || offset+len(dst) > f.Bytes() {
		panic(fmt.Sprintf("tensor: bytes %d to %d of %v%v", offset, offset+len(dst), f.DType, f.Shape))
	}
	if n, err := r.file.ReadAt(dst, r.base+int64(r.offsets[i][0])+int64(offset)); n < len(dst) {
		return fmt.Errorf("read safetensors: tensor %q: %w", f.Name, err)
	}
	return nil
}
