package job

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

func newModel(t *testing.T, seed uint64, hidden ...int) *nn.Params[float32] {
	t.Helper()
	cfg := env.DefaultConfig()
	cfg.EnvType = "CartPole-v1"
	vec := test.Must(all.Registry().New(cfg, 1))(t)
	net := policy.DefaultConfig()
	net.HiddenSizes, net.NormalizeObservations = hidden, true
	p := test.Must(policy.NewMLP(net, vec.Spec(), seed, tensor.Heap))(t)
	return p.Params()
}

// TestModelComesBack: LoadModel restores a model from tensors in memory, and from a file.
func TestModelComesBack(t *testing.T) {
	src := newModel(t, 1, 8, 4)
	_, mean := src.Buffers.Entry(0)
	mean.F64()[0] = 42
	for name, load := range map[string]func(*nn.Params[float32]) error{
		"memory": func(p *nn.Params[float32]) error { return LoadModel(p, ModelDict(src)) },
		"file": func(p *nn.Params[float32]) error {
			path := filepath.Join(t.TempDir(), "model.safetensors")
			var text bytes.Buffer
			if err := tensor.WriteSafetensors(&text, ModelDict(src), nil); err != nil {
				return err
			}
			if err := os.WriteFile(path, text.Bytes(), 0o666); err != nil {
				return err
			}
			f, err := OpenTensors(path)
			if err != nil {
				return err
			}
			defer f.Close()
			if f.Load(newModel(t, 1, 8), newModel(t, 1, 8)) == nil {
				t.Error("another model loads the file")
			}
			return f.Load(p, p)
		},
	} {
		dst := newModel(t, 2, 8, 4)
		test.OK(t, load(dst))
		test.Check(t, rolestest.SameDict(ModelDict(dst), ModelDict(src)), "%s", name)
		if got, want := tensor.FromF32(dst.Data, len(dst.Data)),
			tensor.FromF32(src.Data, len(src.Data)); !bytes.Equal(got.Bytes(), want.Bytes()) {
			t.Errorf("%s: parameters differ", name)
		}
	}
}

// Weights without adapters fit a model with new adapters.
func TestAdaptersAreOptional(t *testing.T) {
	p := new(nn.Params[float32])
	p.Group("actor")
	p.Add("weight", 2)
	adapter := p.Add("lora", 1)
	p.Fields[adapter].Optional = true
	test.OK(t, p.Alloc(tensor.Heap))
	p.Of(adapter)[0] = 5
	var d tensor.Dict
	d.Set("weight", tensor.FromF32([]float32{1, 2}, 2))
	if err := LoadModel(p, d); err != nil || p.Of(0)[1] != 2 || p.Of(adapter)[0] != 5 {
		t.Errorf("weights %v, adapter %v: want [1 2] and the 5 that was there (%v)", p.Of(0), p.Of(adapter), err)
	}
	d.Set("other", tensor.FromF32([]float32{1}, 1))
	if err := LoadModel(p, d); err == nil {
		t.Error("a tensor of another model stands for the adapter")
	}
}

// A file with another model is an error that names the first tensor that does not fit. The parameters do not change.
func TestForeignModelIsRefused(t *testing.T) {
	own := newModel(t, 1, 8)
	before := append([]float32(nil), own.Data...)
	names := func(d tensor.Dict) (n []string) {
		for i := range d.Len() {
			name, _ := d.Entry(i)
			n = append(n, name)
		}
		return n
	}
	without := func(d tensor.Dict, drop string) (r tensor.Dict) {
		for i := range d.Len() {
			if name, x := d.Entry(i); name != drop {
				r.Set(name, x)
			}
		}
		return r
	}
	full := ModelDict(newModel(t, 2, 8))
	extra := without(full, "")
	extra.Set("critic.7.weight", tensor.New(tensor.F32, 2))
	last := names(full)[full.Len()-1]
	swapped := without(full, last) // the same number of tensors, but another tensor
	swapped.Set("critic.8.weight", tensor.New(tensor.F32, 2))
	wider := ModelDict(newModel(t, 2, 9))
	for _, c := range []struct {
		what string
		d    tensor.Dict
		want string
	}{
		{"nothing", tensor.Dict{}, names(full)[0]},
		{"one missing", without(full, last), last},
		{"one too many", extra, "critic.7.weight"},
		{"one for another", swapped, last},
		{"another width", wider, names(full)[0]},
	} {
		test.Fails(t, LoadModel(own, c.d), c.want, "%s", c.what)
	}
	if a, b := tensor.FromF32(own.Data, len(own.Data)), tensor.FromF32(before, len(before)); !bytes.Equal(a.Bytes(),
		b.Bytes()) {
		t.Error("a model that was refused changed parameters")
	}
}
