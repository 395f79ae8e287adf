package resnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/tensor"
)

// Load copies torchvision's tensors in d into the parameters and buffers of p whose names begin with prefix. Names in d
// may begin with module., _orig_mod., model. or backbone., which wrappers of PyTorch add. Convolutions are [filters, C,
// size, size] there, and linear layers [out, in].
//
// If head is set, d must also have the last layers, fc.*. Otherwise, Load does not change the last layers of p, and
// skips those of d. All other names and shapes must agree, and all numbers must be finite.
func Load(p *nn.Params[float32], prefix string, d tensor.Dict, head bool) error {
	theirs := map[string]tensor.Tensor{}
	for i := range d.Len() {
		name, t := d.Entry(i)
		theirs[plainName(name)] = t
	}
	for _, constant := range []string{"mean", "std", "_mean", "_std"} {
		delete(theirs, constant)
	}
	take := func(name string, shape ...int) (tensor.Tensor, error) {
		t, ok := theirs[name]
		delete(theirs, name)
		if !ok {
			return t, fmt.Errorf("no %s %v in it: expected the tensors of this network, with torchvision's names", name,
				shape)
		}
		if t.DType() != tensor.F32 || !slices.Equal(t.Shape(), shape) {
			return t, fmt.Errorf("%s is %v, this network's is F32%v", name, t, shape)
		}
		for i, x := range t.F32() {
			if x-x != 0 {
				return t, fmt.Errorf("%s: element %d is %v: expected finite numbers", name, i, x)
			}
		}
		return t, nil
	}
	for _, mine := range tensorsOf(p, prefix) {
		if strings.HasPrefix(mine.name, "fc.") && !head {
			continue
		}
		if err := mine.load(take); err != nil {
			return err
		}
	}
	for name := range theirs {
		switch {
		case strings.HasSuffix(name, ".num_batches_tracked"), strings.HasPrefix(name, "fc.") && !head:
			delete(theirs, name)
		}
	}
	var others []string
	for name := range theirs {
		others = append(others, name)
	}
	if slices.Sort(others); len(others) > 0 {
		return fmt.Errorf("%s is in it, and is no tensor of this network", others[0])
	}
	return nil
}

// plainName returns torchvision's name: the given name without the prefixes that wrappers of PyTorch add.
func plainName(name string) string {
	for _, wrapper := range []string{"module.", "_orig_mod.", "model.", "backbone."} {
		name = strings.TrimPrefix(name, wrapper)
	}
	return name
}

// A named tensor is a parameter or a buffer, with its name in the network, without the prefix.
type named struct {
	name string
	tensor.Tensor
}

// tensorsOf returns the parameters and buffers whose names begin with prefix.
func tensorsOf(p *nn.Params[float32], prefix string) (all []named) {
	add := func(name string, t tensor.Tensor) {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			all = append(all, named{rest, t})
		}
	}
	for i, f := range p.Fields {
		add(f.Name, tensor.FromF32(p.Of(i), f.Shape...))
	}
	for i := range p.Buffers.Len() {
		add(p.Buffers.Entry(i))
	}
	return all
}

// load copies tensors of d to n. The function take must return the tensor of d with the given name and shape, or an
// error.
func (n named) load(take func(name string, shape ...int) (tensor.Tensor, error)) error {
	if norm, ok := strings.CutSuffix(n.name, ".stats"); ok {
		width := n.Len() / 2
		mean, err := take(norm+".running_mean", width)
		if err != nil {
			return err
		}
		variance, err := take(norm+".running_var", width)
		if err != nil {
			return err
		}
		to := n.F64()
		for k, m := range mean.F32() {
			to[1+k], to[1+width+k] = float64(m), float64(variance.F32()[k])
		}
		return nil
	}
	if n.Rank() == 1 {
		t, err := take(n.name, n.Dim(0))
		if err == nil {
			n.CopyFrom(t)
		}
		return err
	}
	rows, out := n.Dim(0), n.Dim(1)
	if strings.HasPrefix(n.name, "fc.") {
		t, err := take(n.name, out, rows)
		if err == nil {
			transpose(n.F32(), t.F32(), out, rows, 1)
		}
		return err
	}
	size := windowSize(n.name)
	c := rows / (size * size)
	t, err := take(n.name, out, c, size, size)
	if err == nil {
		transpose(n.F32(), t.F32(), out, c, size*size)
	}
	return err
}

// transpose sets dst [pixels,c,out] to src [out,c,pixels].
func transpose(dst, src []float32, out, c, pixels int) {
	for o := range out {
		for k := range c {
			for p := range pixels {
				dst[(p*c+k)*out+o] = src[(o*c+k)*pixels+p]
			}
		}
	}
}

// windowSize returns the width of the windows of the convolution with the given name.
func windowSize(name string) int {
	switch {
	case name == "conv1.weight":
		return 7
	case strings.Contains(name, "downsample"):
		return 1
	}
	return 3
}
