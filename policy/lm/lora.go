package lm

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/policy/nn/kernel"
)

// A LoRA describes trainable low-rank adapters for matrix products of the model: y = x·W +
// scale·(x·A)·B. Hu et al. 2021, arXiv:2106.09685.
type LoRA struct {
	Rank    int
	Alpha   float64  // scale = Alpha/Rank
	RSLoRA  bool     // scale = Alpha/√Rank instead (Kalajdzievski 2023, arXiv:2312.03732)
	Targets []string // names of products: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj, lm_head
}

// Scale returns the factor of the adapters' products.
func (o *LoRA) Scale() float32 {
	if o.RSLoRA {
		return float32(o.Alpha / math.Sqrt(float64(o.Rank)))
	}
	return float32(o.Alpha / float64(o.Rank))
}

// Targets are the products that can have an adapter.
var Targets = []string{"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}

func (o *LoRA) check(c *Config) error {
	if o.Rank < 1 {
		return fmt.Errorf("lora rank is %d, must be at least 1", o.Rank)
	}
	if o.Rank > maxSize {
		return fmt.Errorf("lora rank is %d, must be at most %d", o.Rank, maxSize)
	}
	if len(o.Targets) == 0 {
		return fmt.Errorf("lora has no target modules, expected some of %v", Targets)
	}
	for _, t := range o.Targets {
		if !slices.Contains(Targets, t) {
			return fmt.Errorf("lora target module %q, expected some of %v", t, Targets)
		}
	}
	return nil
}

// An adapter has two matrices, A [in,rank] and B [rank,out].
type adapter struct {
	m              *Model
	module         string // name of the product
	in, out, rank  int    // sizes of this part
	over           sum    // split of the sum over the inputs
	fieldA, fieldB int    // indices of A and B in m.Params
	scale          float32
}

// adapt gives l an adapter if module is a target. inputs and outputs are the sizes of l in the whole
// model.
func (l *linear) adapt(module string, by cut, inputs, outputs int) {
	o := l.m.lora
	if o == nil || !slices.Contains(o.Targets, module[strings.LastIndexByte(module, '.')+1:]) {
		return
	}
	p := l.m.Params
	a := &adapter{m: l.m, module: module, in: l.in, out: l.out, rank: o.Rank, over: l.over, scale: o.Scale()}
	a.fieldA = p.Add(module+".lora_A.weight", l.in, o.Rank)
	a.fieldB = p.Add(module+".lora_B.weight", o.Rank, l.out)
	switch c := &l.m.Config; by {
	case byRows:
		p.Cut(p.Fields[a.fieldA].Name, c.slice(l.m.part, 0, inputs))
	case byColumns:
		p.Cut(p.Fields[a.fieldB].Name, c.slice(l.m.part, 1, outputs))
	}
	p.Fields[a.fieldA].Optional, p.Fields[a.fieldB].Optional = true, true
	l.adapter = a
	l.m.adapters, l.m.adapted[module] = append(l.m.adapters, a), a
}

func (a *adapter) a() []float32 { return a.m.Params.Of(a.fieldA) }
func (a *adapter) b() []float32 { return a.m.Params.Of(a.fieldB) }

// down sets low [n,rank] to scale·x·A.
func (a *adapter) down(w *Work, low, x []float32, n int) {
	w.ops.Product(low, n, a.rank, a.over.blocks, nil, [3]Term{{A: x, B: a.a(), K: a.in, Width: a.over.width}})
	if a.over.shared {
		w.sum(low)
	}
	w.base.Scale(low, a.scale)
}

// InitAdapters draws A from a normal distribution with deviation 1/rank and sets B to 0, so that
// new adapters change nothing. Init calls InitAdapters.
func (m *Model) InitAdapters(seed uint64) {
	whole := m.Whole()
	for i, w := range whole.adapters {
		a, field := m.adapted[w.module], whole.Params.Fields[w.fieldA]
		if a == nil {
			continue
		}
		block := m.Params.SliceOf(field.Name).Block(field.Shape)
		fillNormal(a.a(), block, 1/float64(a.rank), seed, uint64(len(whole.list)+i))
		clear(a.b())
	}
}

// LoRA returns the Options.LoRA of New. The result is nil if the model has no adapters.
func (m *Model) LoRA() *LoRA { return m.lora }

// Adapters returns the tensors of the adapters. A tensor is named after the product of its adapter, for example
// lm_head.lora_A.weight. Checkpoints have the transposes of the tensors.
func (m *Model) Adapters() []Weight {
	var all []Weight
	for _, a := range m.adapters {
		for _, field := range []int{a.fieldA, a.fieldB} {
			f := m.Params.Fields[field]
			t := Weight{Name: f.Name, Shape: f.Shape, Slice: m.Params.SliceOf(f.Name), Transposed: true}
			if m.ready {
				t.Data, t.Grad = m.Params.Of(field), m.Params.GradOf(field)
			}
			all = append(all, t)
		}
	}
	return all
}

// MergedTensors returns the tensors that the model would have if its adapters were merged into its weights. The tensors
// have no Data. The merged model gives the same results up to rounding. An adapter of the output matrix unties this
// matrix from the embedding.
func (m *Model) MergedTensors() []Weight {
	all := m.Tensors()
	for i := range all {
		all[i].Data, all[i].Grad = nil, nil
	}
	if m.unties() {
		all = append(all, Weight{Name: headName, Shape: []int{m.Config.Hidden, m.Config.Vocab}, Transposed: true})
	}
	return all
}

// MergedConfig returns the configuration of the merged model (see MergedTensors).
func (m *Model) MergedConfig() Config {
	c := m.Config
	c.Tied = c.Tied && !m.unties()
	return c
}

const headName = "lm_head.weight"

func (m *Model) unties() bool { return m.Config.Tied && m.head.adapter != nil }

// Merged returns the named tensor of MergedTensors, with Data. If the tensor has no adapter, Data
// is the model's own memory. Otherwise Data is new memory that holds the weight plus scale·A·B. The
// model does not change.
func (m *Model) Merged(name string) Weight {
	from := name
	if name == headName && m.unties() {
		from = embedName
	}
	l := m.list[m.index[from]]
	t := Weight{Name: name, Shape: l.shape, Transposed: l.transposed, Data: l.weight.data()}
	a := m.adapted[strings.TrimSuffix(name, ".weight")]
	if a == nil {
		return t
	}
	scaled := slices.Clone(a.a())
	kernel.Scale(scaled, a.scale)
	t.Data = slices.Clone(t.Data)
	kernel.NewMultiplier().Product(t.Data, a.in, a.out, 1, t.Data, kernel.Term{A: scaled, B: a.b(), K: a.rank})
	return t
}
