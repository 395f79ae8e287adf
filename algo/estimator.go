package algo

// An estimator turns a rollout into advantages: what a family of algorithms differs in, while they
// train alike (PPO).
type estimator interface {
	// estimate fills adv and ret, T·N elements each, those of samples that count. It may take the
	// weight from samples that shall not.
	estimate(adv, ret []float32, x *experience) error
}

// An experience is a rollout as estimators see it.
type experience struct {
	*Trajectory
	Weight   []float32 // T·N: of each sample in the loss, 0 where it does not count; nil: 1 everywhere
	LogRatio []float32 // T·N: log π(a) - log π_ref(a) of each sample; nil without a reference
	Episodes *episodes // nil where the estimator did not ask for them
}

// generalised is the estimator of adv_type gae.
type generalised struct{ gamma, lambda float32 }

func (g generalised) estimate(adv, ret []float32, x *experience) error {
	GAE(adv, ret, x.Trajectory, g.gamma, g.lambda)
	return nil
}
