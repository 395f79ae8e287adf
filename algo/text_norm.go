package algo

import "github.com/rlinf/rlinf/policy/lm"

// A textNorm is the norm of the gradient of a language model, whose parts may be on several ranks.
type textNorm struct {
	model *lm.Model
	work  *lm.Work
}

var _ norm = textNorm{}

// newTextTrainState returns the training state of m, which is trained with w.
func (s *Setup) newTextTrainState(m *lm.Model, w *lm.Work, cfg OptimConfig) (*trainState, error) {
	t, err := s.newTrainState(m.Params, cfg)
	if err == nil {
		t.norm = textNorm{m, w}
		t.final = t.norm.final
	}
	return t, err
}

func (textNorm) begin()           {}
func (textNorm) final(lo, hi int) {}

func (n textNorm) value() (float64, error) {
	sum, err := n.model.GradSquares(n.work)
	if err != nil {
		return 0, err
	}
	return root(sum, n.model.Params)
}
