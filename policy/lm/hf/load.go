package hf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/tensor"
)

// Load fills the weights of m from a checkpoint folder. It checks names, shapes and types before it reads weights. A
// weight that is NaN or infinite is an error, too. If m is a part of a model, Load reads only that part.
func Load(m *lm.Model, dir string) error {
	return visit(m, dir, func(f *folder) error { return f.load(inFiles(m, m.Tensors())) })
}

// Check returns the errors that Load finds before it reads weights. The model need not be allocated.
func Check(m *lm.Model, dir string) error { return visit(m, dir, func(*folder) error { return nil }) }

// visit opens the folder dir, and checks that it has all weights of the model, even if m is only a part of the model.
// Then it calls the function task.
func visit(m *lm.Model, dir string, task func(*folder) error) (err error) {
	defer prefix(&err, "load model")
	f := newFolder()
	defer f.close()
	if err := f.openAll(dir); err != nil {
		return err
	}
	want := inFiles(m, m.Whole().Tensors())
	if err := f.check(want, func(name string) bool { return ignored(m, name) }); err != nil {
		return err
	}
	return task(f)
}

// prefix wraps *err with the name of the attempted action, unless *err is nil.
func prefix(err *error, action string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", action, *err)
	}
}

// inFiles sets the names of the given tensors of m to their names in files. It changes the slice in place, and returns
// it.
func inFiles(m *lm.Model, all []lm.Weight) []lm.Weight {
	for i := range all {
		all[i].Name = fileName(m.Config.Family, all[i].Name)
	}
	return all
}

// A folder holds the open weight files of a checkpoint.
type folder struct {
	files []*os.File
	where map[string]place
}

// A place locates a tensor: its file, and its index in the file.
type place struct {
	path   string
	reader *tensor.SafetensorsReader
	index  int
}

// A checkpoint folder has all weights in one file, or an index that maps each tensor to its file.
const (
	oneFile   = "model.safetensors"
	indexFile = "model.safetensors.index.json"
)

// index is the content of an indexFile.
type index struct {
	Metadata  map[string]any    `json:"metadata"`
	WeightMap map[string]string `json:"weight_map"`
}

func newFolder() *folder { return &folder{where: map[string]place{}} }

// openAll opens the files of a checkpoint folder.
func (f *folder) openAll(dir string) error {
	one, many := filepath.Join(dir, oneFile), filepath.Join(dir, indexFile)
	if _, err := os.Stat(one); err == nil { // an index is then from an earlier save; transformers ignores it, too
		return f.open(one, nil)
	}
	text, err := durable.ReadFile(many, durable.Data)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s has neither %s nor %s", dir, oneFile, indexFile)
	}
	if err != nil {
		return err
	}
	var x index
	if err := json.Unmarshal(text, &x); err != nil {
		return fmt.Errorf("%s: %w", many, err)
	}
	shards := map[string][]string{}
	for name, shard := range x.WeightMap {
		if !filepath.IsLocal(shard) {
			return fmt.Errorf("%s: shard %q of %s is not in the folder", many, shard, name)
		}
		shards[shard] = append(shards[shard], name)
	}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		if err := f.open(filepath.Join(dir, shard), shards[shard]); err != nil {
			return err
		}
	}
	return nil
}

// open opens a file and adds its tensors to the folder: only the named tensors, or all tensors if names is nil.
func (f *folder) open(path string, names []string) error {
	file, err := durable.Open(path)
	if err != nil {
		return err
	}
	f.files = append(f.files, file)
	info, err := file.Stat()
	if err != nil {
		return err
	}
	r, err := tensor.NewSafetensorsReader(file, info.Size())
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	at := map[string]int{}
	for i, field := range r.Fields {
		at[field.Name] = i
		if names == nil {
			f.where[field.Name] = place{path, r, i}
		}
	}
	for _, name := range names {
		i, ok := at[name]
		if !ok {
			return fmt.Errorf("%s: tensor %q is missing, although the index names this file for it", path, name)
		}
		f.where[name] = place{path, r, i}
	}
	return nil
}

func (f *folder) close() {
	for _, file := range f.files {
		file.Close()
	}
}

// check returns an error if the folder lacks an expected tensor, or has a tensor that is neither expected nor ignored.
func (f *folder) check(expected []lm.Weight, ignored func(string) bool) error {
	var wrong []string
	bad := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for _, t := range expected {
		known[t.Name] = true
		p, ok := f.where[t.Name]
		if !ok {
			bad("tensor %q is missing", t.Name)
			continue
		}
		field := p.reader.Fields[p.index]
		if shape := fileShape(t); !slices.Equal(field.Shape, shape) {
			bad("%s: tensor %q has shape %v, the configuration says %v", p.path, t.Name, field.Shape, shape)
		} else if !slices.Contains(readable, field.DType) {
			bad("%s: tensor %q has type %v, expected one of %v", p.path, t.Name, field.DType, readable)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.where)) {
		if !known[name] && !ignored(name) {
			bad("%s: tensor %q is not part of this model", f.where[name].path, name)
		}
	}
	if len(wrong) > 3 {
		wrong = append(wrong[:3], fmt.Sprintf("and %d more", len(wrong)-3))
	}
	if wrong != nil {
		return errors.New(strings.Join(wrong, "; "))
	}
	return nil
}

// load reads the data of tensors that check has found.
func (f *folder) load(tensors []lm.Weight) error {
	var memory buffers
	for _, t := range tensors {
		p := f.where[t.Name]
		if err := memory.readTensor(t, p.reader, p.index); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return nil
}

// readable are the types that Load converts to float32.
var readable = []tensor.DType{tensor.F32, tensor.BF16, tensor.F16}

// chunkElements is about the maximum number of elements that are read or written at once.
const chunkElements = 1 << 20

// buffers holds one chunk, and is reused for all tensors.
type buffers struct {
	raw  []byte
	wide []float32
}

// readTensor fills t from tensor i of a file, several rows at a time. If t is a slice of the whole tensor, readTensor
// reads only that slice.
func (b *buffers) readTensor(t lm.Weight, r *tensor.SafetensorsReader, i int) error {
	field := r.Fields[i]
	inRow := 1 // elements in a row of the file
	if len(field.Shape) > 1 {
		inRow = field.Shape[1]
	}
	firstRow, firstColumn, width := 0, 0, inRow
	if s := t.Slice; !s.All() {
		if alongRow := (s.Axis == 1) != t.Transposed; alongRow {
			firstColumn, width = s.From, s.To-s.From
		} else {
			firstRow = s.From
		}
	}
	if len(t.Data) == 0 {
		return nil
	}
	size := field.DType.Size()
	rows := len(t.Data) / width
	step := min(rows, max(16, chunkElements/width))
	if n := step * width; len(b.wide) < n {
		b.wide, b.raw = make([]float32, n), tensor.New(tensor.F32, n).Bytes()
	}
	raw := tensor.Of(b.raw[:step*width*size], field.DType, step*width)
	for row := 0; row < rows; row += step {
		n := min(step, rows-row)
		part := raw.Slice(0, n*width)
		begin := (firstRow+row)*inRow + firstColumn // index of the part's first element in the file's tensor
		if err := readRows(r, i, part.Bytes(), n, begin*size, inRow*size); err != nil {
			return err
		}
		values := b.wide[:n*width]
		widen(values, part)
		for j, x := range values {
			if x-x != 0 {
				return fmt.Errorf("tensor %q: element %d is %g", t.Name, begin+j/width*inRow+j%width, x)
			}
		}
		if t.Transposed {
			scatter(t.Data, values, row, n, width, rows)
		} else {
			copy(t.Data[row*width:], values)
		}
	}
	return nil
}

// readRows fills dst with equal parts of n rows of tensor i. The first part begins offset bytes into the tensor, and
// each later part begins stride bytes after the previous one.
func readRows(r *tensor.SafetensorsReader, i int, dst []byte, n, offset, stride int) error {
	if len(dst) == n*stride { // whole rows
		return r.ReadTensor(i, dst, offset)
	}
	for row := range n {
		part := dst[row*len(dst)/n : (row+1)*len(dst)/n]
		if err := r.ReadTensor(i, part, offset+row*stride); err != nil {
			return err
		}
	}
	return nil
}

// widen converts the elements of src to float32.
func widen(dst []float32, src tensor.Tensor) {
	switch src.DType() {
	case tensor.F32:
		copy(dst, src.F32())
	case tensor.BF16:
		tensor.FromBF16(dst, src.BF16())
	case tensor.F16:
		tensor.FromF16(dst, src.F16())
	}
}

// scatter transposes src [n,width] into the columns [row, row+n) of dst [width,rows]. It works in blocks of 16 columns,
// so that it writes each cache line once.
func scatter(dst, src []float32, row, n, width, rows int) {
	for lo := 0; lo < n; lo += 16 {
		hi := min(lo+16, n)
		for j := range width {
			out := dst[j*rows+row:]
			for k := lo; k < hi; k++ {
				out[k] = src[k*width+j]
			}
		}
	}
}

// gather is the inverse of scatter: it transposes the columns [row, row+n) of src [width,rows] into dst [n,width].
func gather(dst, src []float32, row, n, width, rows int) {
	for lo := 0; lo < n; lo += 16 {
		hi := min(lo+16, n)
		for j := range width {
			in := src[j*rows+row:]
			for k := lo; k < hi; k++ {
				dst[k*width+j] = in[k]
			}
		}
	}
}
