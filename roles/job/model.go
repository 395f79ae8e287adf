package job

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// ModelDict returns views of p's parameters, one per field, and of its buffers.
func ModelDict(p *nn.Params[float32]) tensor.Dict {
	var d tensor.Dict
	for _, f := range p.Fields {
		n := 1
		for _, s := range f.Shape {
			n *= s
		}
		d.Set(f.Name, tensor.FromF32(p.Data[f.Off:f.Off+n], f.Shape...))
	}
	for i := range p.Buffers.Len() {
		d.Set(p.Buffers.Entry(i))
	}
	return d
}

// LoadModel copies d into p. d must have every tensor of the policy in its shape, except optional ones, and no
// others.
func LoadModel(p *nn.Params[float32], d tensor.Dict) error {
	want := ModelDict(p)
	lacks := map[string]bool{}
	for _, f := range p.Fields {
		if _, ok := d.Get(f.Name); f.Optional && !ok {
			lacks[f.Name] = true
		}
	}
	for i := range want.Len() {
		name, t := want.Entry(i)
		from, ok := d.Get(name)
		if lacks[name] {
			continue
		}
		if !ok {
			return fmt.Errorf("model: no %s (%v) in it: it is another policy's", name, t)
		}
		if !from.SameShape(t) {
			return fmt.Errorf("model: %s is %v, this policy's is %v", name, from, t)
		}
	}
	for i := range d.Len() {
		if name, t := d.Entry(i); want.Len()-len(lacks) != d.Len() {
			if _, ok := want.Get(name); !ok {
				return fmt.Errorf("model: it has %s (%v), this policy has not", name, t)
			}
		}
	}
	for i := range want.Len() {
		if name, t := want.Entry(i); !lacks[name] {
			t.CopyFrom(d.Must(name))
		}
	}
	return nil
}

// Fit returns an error unless d has the tensors want, in float32, and no others.
func Fit(d tensor.Dict, want []tensor.Field) error {
	for _, f := range want {
		x, ok := d.Get(f.Name)
		if !ok {
			return fmt.Errorf("model: no %s %v in it: it is another model's", f.Name, f.Shape)
		}
		if x.DType() != tensor.F32 || !slices.Equal(x.Shape(), f.Shape) {
			return fmt.Errorf("model: %s is %v, this model's is %v", f.Name, x, f.Shape)
		}
	}
	if d.Len() != len(want) {
		return fmt.Errorf("model: it has %d tensors, this model has %d", d.Len(), len(want))
	}
	return nil
}

// ReadWeights reads the file of weights that is the value of key.
func ReadWeights(key, path string) (tensor.Dict, error) {
	b, err := durable.ReadFile(path)
	if err != nil {
		return tensor.Dict{}, fmt.Errorf("%s: %w%s", key, err, MadeBy(err))
	}
	d, _, err := tensor.ReadSafetensors(b)
	if err != nil {
		err = fmt.Errorf("%s: %s: %w", key, path, err)
	}
	return d, err
}

// MadeBy returns the end of a message: which run saves the checkpoint that is missing according to err. It returns ""
// for other errors and files.
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
