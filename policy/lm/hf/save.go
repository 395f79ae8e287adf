package hf

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

// SaveOptions describes how a checkpoint is written.
type SaveOptions struct {
	DType      tensor.DType // F32, BF16 or F16; weights are rounded to this type. 0 means F32.
	ShardBytes int          // maximum bytes of tensors in a file, unless one tensor is larger; 0 means a single file
	Tokens     Tokens       // for config.json and generation_config.json
}

// Save writes a checkpoint folder for transformers: config.json, generation_config.json with the ids of special tokens,
// and the weights. Adapters are merged into the weights.
// If the folder exists, Save replaces files of the same names. It removes model.safetensors or the index of an earlier
// save, so that every reader finds the new weights. If a weight is beyond the type's range, Save writes nothing.
func Save(m *lm.Model, dir string, o SaveOptions) (err error) {
	defer prefix(&err, "save model")
	o.DType = cmp.Or(o.DType, tensor.F32)
	if _, ok := dtypeNames[o.DType]; !ok {
		return fmt.Errorf("weights as %v, expected one of %v", o.DType, readable)
	}
	if err := checkRange(m, o.DType); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	text, err := FormatConfig(m.MergedConfig(), o.DType, o.Tokens)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), append(text, '\n'), 0o666); err != nil {
		return err
	}
	if err := o.Tokens.save(dir); err != nil {
		return err
	}
	shards, total := split(m, o)
	stale := oneFile
	if len(shards) == 1 {
		stale = indexFile
	}
	if err := os.Remove(filepath.Join(dir, stale)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(shards) == 1 {
		return writeShard(m, filepath.Join(dir, oneFile), shards[0])
	}
	x := index{Metadata: map[string]any{"total_size": total}, WeightMap: map[string]string{}}
	for i, s := range shards {
		name := fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, len(shards))
		for _, f := range s.fields {
			x.WeightMap[f.Name] = name
		}
		if err := writeShard(m, filepath.Join(dir, name), s); err != nil {
			return err
		}
	}
	if text, err = json.MarshalIndent(x, "", "  "); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, indexFile), append(text, '\n'), 0o666)
}

// checkRange returns an error if a finite weight would become infinite in the type.
func checkRange(m *lm.Model, dtype tensor.DType) error {
	// The smallest positive number of each type that is rounded to infinity.
	infinite, ok := map[tensor.DType]float32{tensor.F16: 65520, tensor.BF16: 0x1.ffp127}[dtype]
	if !ok {
		return nil
	}
	for _, t := range m.MergedTensors() {
		for _, x := range m.Merged(t.Name).Data {
			if size := max(x, -x); size >= infinite && size <= math.MaxFloat32 {
				return fmt.Errorf("tensor %q: %g would become infinite in %v: expected a type with a larger range",
					fileName(m.Config.Family, t.Name), x, dtype)
			}
		}
	}
	return nil
}

// A shard describes the tensors of one file.
type shard struct {
	fields []tensor.Field
	names  []string // names of the same tensors in package lm
}

// split distributes the tensors of m over files. It returns the files, and the total number of bytes of their tensors.
func split(m *lm.Model, o SaveOptions) (shards []shard, total int) {
	size := 0
	for _, t := range m.MergedTensors() {
		f := tensor.Field{Name: fileName(m.Config.Family, t.Name), DType: o.DType, Shape: fileShape(t)}
		if len(shards) == 0 || o.ShardBytes > 0 && size > 0 && size+f.Bytes() > o.ShardBytes {
			shards, size = append(shards, shard{}), 0
		}
		last := &shards[len(shards)-1]
		last.fields, last.names = append(last.fields, f), append(last.names, t.Name)
		size += f.Bytes()
		total += f.Bytes()
	}
	return shards, total
}

// writeShard writes one file, tensor by tensor.
func writeShard(m *lm.Model, path string, s shard) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer file.Close()
	w := bufio.NewWriterSize(file, 1<<20)
	order, err := tensor.WriteSafetensorsHeader(w, s.fields, map[string]string{"format": "pt"})
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, i := range order {
		if err := writeTensor(w, m.Merged(s.names[i]), s.fields[i].DType); err != nil {
			return fmt.Errorf("%s: tensor %q: %w", path, s.fields[i].Name, err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Close()
}

// writeTensor writes the elements of a tensor in the file's order and type.
func writeTensor(w io.Writer, t lm.Weight, dtype tensor.DType) error {
	rows, width := 1, len(t.Data)
	if len(t.Shape) > 1 {
		shape := fileShape(t)
		rows, width = shape[0], shape[1]
	}
	step := min(rows, max(16, chunkElements/width))
	values, raw := make([]float32, step*width), tensor.New(dtype, step*width)
	for row := 0; row < rows; row += step {
		n := min(step, rows-row)
		part := values[:n*width]
		if t.Transposed {
			gather(part, t.Data, row, n, width, rows)
		} else {
			copy(part, t.Data[row*width:])
		}
		out := raw.Slice(0, n*width)
		switch dtype {
		case tensor.F32:
			copy(out.F32(), part)
		case tensor.BF16:
			tensor.ToBF16(out.BF16(), part)
		case tensor.F16:
			tensor.ToF16(out.F16(), part)
		}
		if _, err := w.Write(out.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
