package job

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// ModelDict returns a view of each parameter of p, and the buffers of p.
func ModelDict(p *nn.Params[float32]) tensor.Dict {
	var d tensor.Dict
	for _, f := range p.Fields {
		d.Set(f.Name, tensor.FromF32(p.Data[f.Off:f.Off+f.Len()], f.Shape...))
	}
	for i := range p.Buffers.Len() {
		d.Set(p.Buffers.Entry(i))
	}
	return d
}

// Fields returns the names, types and shapes of the tensors of d.
func Fields(d tensor.Dict) []tensor.Field {
	fields := make([]tensor.Field, d.Len())
	for i := range fields {
		name, t := d.Entry(i)
		fields[i] = tensor.Field{Name: name, DType: t.DType(), Shape: t.Shape()}
	}
	return fields
}

// LoadModel copies the tensors of d into p. It returns an error unless d fits p: see FitModel.
func LoadModel(p *nn.Params[float32], d tensor.Dict) error {
	if err := FitModel(p, Fields(d)); err != nil {
		return err
	}
	mine := ModelDict(p)
	for i := range mine.Len() {
		name, t := mine.Entry(i)
		if from, ok := d.Get(name); ok { // else the tensor is optional
			t.CopyFrom(from)
		}
	}
	return nil
}

// FitModel compares a list of tensors with the parameters and buffers of p. It returns an error unless names, types and
// shapes are equal. Only optional parameters may be missing.
func FitModel(p *nn.Params[float32], have []tensor.Field) error {
	want := p.Layout().Fields()
	missing := 0
	for i, f := range want {
		at := slices.IndexFunc(have, func(h tensor.Field) bool { return h.Name == f.Name })
		switch {
		case at < 0 && i < len(p.Fields) && p.Fields[i].Optional:
			missing++
		case at < 0:
			return fmt.Errorf("model: no %s (%v%v) in it: expected the tensors of this policy", f.Name, f.DType,
				f.Shape)
		case have[at].DType != f.DType || !slices.Equal(have[at].Shape, f.Shape):
			return fmt.Errorf("model: %s is %v%v, this policy's is %v%v", f.Name, have[at].DType, have[at].Shape,
				f.DType, f.Shape)
		}
	}
	if len(want)-missing == len(have) {
		return nil
	}
	i := slices.IndexFunc(have, func(h tensor.Field) bool {
		return !slices.ContainsFunc(want, func(f tensor.Field) bool { return h.Name == f.Name })
	})
	h := have[i]
	return fmt.Errorf("model: %s (%v%v) is in it, and is no tensor of this policy", h.Name, h.DType, h.Shape)
}

// Fit compares a list of tensors with the expected tensors. It returns an error unless names and shapes are equal and
// all listed tensors are float32.
func Fit(listed, expected []tensor.Field) error {
	for _, f := range expected {
		i := slices.IndexFunc(listed, func(h tensor.Field) bool { return h.Name == f.Name })
		adapter := func(h tensor.Field) bool { return strings.Contains(h.Name, ".lora_") }
		if i < 0 && slices.ContainsFunc(listed, adapter) {
			return errors.New("it has adapters only: export it first: rlinf export CHECKPOINT --out FOLDER, and " +
				"actor.model.model_path: FOLDER")
		}
		if i < 0 {
			return fmt.Errorf("model: no %s %v in it: expected the tensors of this model", f.Name, f.Shape)
		}
		if h := listed[i]; h.DType != tensor.F32 || !slices.Equal(h.Shape, f.Shape) {
			return fmt.Errorf("model: %s is %v%v, this model's is %v", f.Name, h.DType, h.Shape, f.Shape)
		}
	}
	if len(listed) != len(expected) {
		return fmt.Errorf("model: it has %d tensors, this model has %d", len(listed), len(expected))
	}
	return nil
}

// A ModelTensors is an open file of tensors, from which parts of a model can be read.
type ModelTensors struct{ *checkpoint.TensorFile }

// OpenTensors opens the safetensors file at path.
func OpenTensors(path string) (*ModelTensors, error) {
	f, err := checkpoint.OpenTensors(path)
	if err != nil {
		return nil, err
	}
	return &ModelTensors{f}, nil
}

// ReadSlice reads the slice s of tensor i into dst. i is an index in Fields.
func (f *ModelTensors) ReadSlice(i int, dst []byte, s nn.Slice) (err error) {
	of := f.Fields[i]
	s.Block(of.Shape).Times(of.DType.Size()).Within(0, of.Bytes(), func(at, here, n int) {
		if err == nil {
			err = f.ReadTensor(i, dst[here:here+n], at)
		}
	})
	return err
}

// Load reads the values of p from the file, directly into the memory of p. p may have slices of a larger network.
// network declares this network, and may be p itself. The tensors of the file must fit network: see FitModel.
func (f *ModelTensors) Load(p, network *nn.Params[float32]) error {
	if err := FitModel(network, f.Fields); err != nil {
		return err
	}
	mine := ModelDict(p)
	for i := range mine.Len() {
		name, t := mine.Entry(i)
		at := f.Index(name)
		if at < 0 { // the tensor is optional
			continue
		}
		if err := f.ReadSlice(at, t.Bytes(), p.SliceOf(name)); err != nil {
			return err
		}
	}
	return nil
}

// ModelFile is the name of the file with the model's tensors, in the folder of a checkpoint.
const ModelFile = "model.safetensors"

// weightsFile returns the file of weights at path. If path is the folder of a checkpoint, this is the checkpoint's
// model.
func weightsFile(path string) string {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return filepath.Join(path, ModelFile)
	}
	return path
}

// OpenWeights opens the weights at path, the value of a configuration key. path is a file, or the folder of a
// checkpoint. The errors of OpenWeights name the key.
func OpenWeights(key, path string) (*ModelTensors, error) {
	f, err := OpenTensors(weightsFile(path))
	if err != nil {
		return nil, fmt.Errorf("%s: %w%s", key, err, MadeBy(err))
	}
	return f, nil
}

// ReadWeights reads the weights at path, as OpenWeights.
func ReadWeights(key, path string) (tensor.Dict, error) {
	path = weightsFile(path)
	b, err := durable.ReadFile(path, durable.NoSize)
	if err != nil {
		return tensor.Dict{}, fmt.Errorf("%s: %w%s", key, err, MadeBy(err))
	}
	d, _, err := tensor.ReadSafetensors(b)
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", key, path, err)
	}
	return d, err
}

// MadeBy returns the end of an error message. If err is about a missing checkpoint, the text names the run that saves
// the checkpoint. For other errors the text is "".
func MadeBy(err error) string {
	var missing *fs.PathError
	if !errors.As(err, &missing) || !errors.Is(missing, fs.ErrNotExist) {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(missing.Path), "/")
	if at := slices.Index(parts, "checkpoints"); at > 0 {
		return fmt.Sprintf(": the run %s makes it, and comes first", parts[at-1])
	}
	return ""
}

// ExportFirst returns the end of an error message about dir, which is not the folder of a model. If dir is a run or a
// checkpoint, the text names the command that makes a model of it. Otherwise it is "".
func ExportFirst(dir string) string {
	for _, name := range []string{"manifest.json", "checkpoints"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return fmt.Sprintf(": this is a run or its checkpoint; export it first: rlinf export %s --out FOLDER", dir)
		}
	}
	return ""
}
