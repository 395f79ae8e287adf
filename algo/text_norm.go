package algo

import "github.com/rlinf/rlinf/policy/lm"

// A textNorm is the norm of the gradient of a language model, whose parts may be on several ranks.
type textNorm struct {
	model *lm.Model
	work  *lm.Work
}

var _ norm = textNorm{}

// newTextTrainState returns the training state of m, which is trained with w. If cfg says so, each replica moves a
// range of the parameters.
func (s *Setup) newTextTrainState(m *lm.Model, w *lm.Work, cfg OptimConfig) (*trainState, error) {
	n := len(m.Params.Data)
	lo, hi := cfg.Share(n, s.Replicas)
	t, err := s.newShare(m.Params, cfg, lo, hi)
	if err != nil {
		return nil, err
	}
	t.norm = textNorm{m, w}
	t.final = t.norm.final
	if cfg.UseDistributedOptimizer {
		replicas, _ := s.Replicas.Count()
		for r := range replicas {
			lo, hi := shareOf(n, replicas, r)
			t.shares = append(t.shares, hi-lo)
		}
	}
	return t, nil
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
