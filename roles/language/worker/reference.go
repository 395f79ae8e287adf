package worker

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/tensor"
)

// A reference is the language model before the first step. For a model with adapters it is the model without them,
// whose weights never change. Otherwise it is a copy.
type reference struct {
	model  *lm.Model
	copied bool
}

// referenceWeights is the name of the reference's weights in the trainer's state.
const referenceWeights = "reference"

// newReference returns the reference model, with the initial weights of the model of. It returns nil if the job needs
// none.
func newReference(p *plan.Plan, of *lm.Model) (*reference, error) {
	if !p.NeedsReference() {
		return nil, nil
	}
	m, err := lm.New(new(nn.Params[float32]), of.Config, lm.Options{Frozen: true, Part: of.Part()})
	if err != nil {
		return nil, err
	}
	r := &reference{model: m, copied: of.LoRA() == nil}
	if !r.copied {
		return r, m.ShareFrozen(of)
	}
	if err := m.Alloc(tensor.Heap); err != nil {
		return nil, fmt.Errorf("reference policy: %w", err)
	}
	copyWeights(m, of)
	return r, nil
}

// copyWeights copies the weights of the model from, but not its adapters, to the model to, which has the same
// weights.
func copyWeights(to, from *lm.Model) {
	source := from.Tensors()
	for i, t := range to.Tensors() {
		copy(t.Data, source[i].Data)
	}
}

// save adds the weights to a trainer's state if they are a copy. A nil reference adds nothing.
func (r *reference) save(d *tensor.Dict) {
	if r != nil && r.copied {
		d.Set(referenceWeights, tensor.FromU8(r.model.Frozen(), len(r.model.Frozen())))
	}
}

// load loads the reference from a state. If the state is weights alone, they become the reference's weights. A nil
// reference does nothing.
func (r *reference) load(st member.State) error {
	if r == nil || !r.copied {
		return nil
	}
	if saved, ok := st.Trainer.Get(referenceWeights); ok && saved.Len() == len(r.model.Frozen()) {
		copy(r.model.Frozen(), saved.U8())
		return nil
	} else if ok || st.Trainer.Len() > 0 {
		return errors.New("the checkpoint has no reference policy of this model")
	}
	if err := takeWeights(r.model, st.Model); err != nil {
		return fmt.Errorf("reference policy: %w", err)
	}
	return nil
}

// takeWeights sets each weight of m to the tensor of the same name in from, which is the model of a state.
func takeWeights(m *lm.Model, from tensor.Dict) error {
	for _, t := range m.Tensors() {
		x, ok := from.Get(t.Name)
		if !ok {
			return fmt.Errorf("no %s", t.Name)
		}
		copy(t.Data, x.F32())
	}
	return nil
}
