package algo

// An estimator computes the advantages of a rollout. The algorithms that share PPO's loop differ in
// their estimators.
type estimator interface {
	// estimate fills adv and ret, T·N elements each, for the samples that count. It may set the
	// weight of further samples to 0.
	estimate(adv, ret []float32, x *experience) error
}

// An experience is the input of an estimator.
type experience struct {
	*Trajectory
	Weight   []float32 // T·N: of each sample in the loss, 0 where it does not count; nil: 1 everywhere
	LogRatio []float32 // T·N: log π(a) - log π_ref(a) of each sample; nil without a reference
	Episodes *episodes // nil with adv_type gae and loss_agg_func token-mean
}

// generalised is the estimator of adv_type gae.
type generalised struct{ gamma, lambda float32 }

func (g generalised) estimate(adv, ret []float32, x *experience) error {
	GAE(adv, ret, x.Trajectory, g.gamma, g.lambda)
	return nil
}
