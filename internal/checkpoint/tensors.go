package checkpoint

import (
	"fmt"
	"os"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/tensor"
)

// A TensorFile is an open file of tensors, which can be read in pieces.
type TensorFile struct {
	*tensor.SafetensorsReader
	file *os.File
}

// OpenTensors opens the safetensors file at path.
func OpenTensors(path string) (*TensorFile, error) {
	file, err := durable.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		var r *tensor.SafetensorsReader
		if r, err = tensor.NewSafetensorsReader(file, info.Size()); err == nil {
			return &TensorFile{r, file}, nil
		}
	}
	file.Close()
	return nil, fmt.Errorf("%s: %w", path, err)
}

// Close closes the file.
func (f *TensorFile) Close() error { return f.file.Close() }

// Small returns the tensors that have at most the given number of bytes each.
func (f *TensorFile) Small(bytes int) (d tensor.Dict, err error) {
	for i, field := range f.Fields {
		if field.Bytes() > bytes {
			continue
		}
		t := tensor.New(field.DType, field.Shape...)
		if err := f.ReadTensor(i, t.Bytes(), 0); err != nil {
			return d, err
		}
		d.Set(field.Name, t)
	}
	return d, nil
}

// pieceBytes is the size of a piece. It is a multiple of the size of an element, for every data type.
const pieceBytes = 1 << 20

// EachPiece calls the function use with the bytes of field i, piece by piece. A piece is valid only during the call.
func (f *TensorFile) EachPiece(i int, use func(piece []byte) error) error {
	size := f.Fields[i].Bytes()
	piece := make([]byte, min(pieceBytes, size))
	for at := 0; at < size; at += pieceBytes {
		part := piece[:min(pieceBytes, size-at)]
		if err := f.ReadTensor(i, part, at); err != nil {
			return err
		}
		if err := use(part); err != nil {
			return err
		}
	}
	return nil
}
