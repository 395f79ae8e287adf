package worker

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/tensor"
)

// A reference is the language model before the first step. A model with adapters shares its base weights with the
// reference, because these weights never change. Otherwise the reference is a copy of the model.
type reference struct {
	model  *lm.Model
	copied bool // the model is a copy
}

// referenceWeights is the name of the reference's weights in the trainer's state.
const referenceWeights = "reference"

// newReference returns the reference of a job, on the device of the given model. Its weights are the initial weights of
// this model. It returns nil if the job needs no reference.
func newReference(p *plan.Plan, of *lm.Model) (*reference, error) {
	if !p.NeedsReference() {
		return nil, nil
	}
	m, err := of.Reference(tensor.Heap)
	if err != nil {
		return nil, fmt.Errorf("reference policy: %w", err)
	}
	r := &reference{model: m, copied: of.LoRA() == nil}
	if r.copied {
		copyWeights(m, of)
	}
	return r, nil
}

// copyWeights copies the weights between two models, without adapters. Both models have the same tensors.
func copyWeights(to, from *lm.Model) {
	source := from.Tensors()
	for i, t := range to.Tensors() {
		copy(t.Data, source[i].Data)
	}
}

// parts returns the weights of the reference as parts of the trainer's state. If there are only weights to load, the
// reference loads these weights. parts returns nil if the reference is nil or not a copy.
func (r *reference) parts() []state.Part {
	if r == nil || !r.copied {
		return nil
	}
	mine, whole := flat(r.model), flat(r.model.Whole())
	n := whole.Size()
	part := state.Part{File: state.TrainerFile, Memory: r.model.Frozen()[:mine.Size()], Gaps: true,
		Field: tensor.Field{Name: referenceWeights, DType: tensor.U8, Shape: []int{n}}}
	if mine.Size() == n {
		part.Blocks = []nn.Block{nn.Slice{}.Block([]int{n})}
		return []state.Part{part, fromWeights(r.model)}
	}
	for i, t := range r.model.Tensors() {
		at := slices.IndexFunc(whole.Fields(), func(f tensor.Field) bool { return f.Name == t.Name })
		b := t.Slice.Block(whole.Fields()[at].Shape).Times(tensor.F32.Size())
		part.Blocks = append(part.Blocks, b.Moved(whole.Offset(at), mine.Offset(i)))
	}
	return []state.Part{part, fromWeights(r.model)}
}

// flat returns the layout of the frozen weights of m.
func flat(m *lm.Model) *tensor.Layout {
	var fields []tensor.Field
	for _, t := range m.Tensors() {
		fields = append(fields, tensor.Field{Name: t.Name, DType: tensor.F32, Shape: t.Shape})
	}
	return tensor.NewLayout(fields...)
}
