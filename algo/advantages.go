package algo

import (
	"math"

	"github.com/rlinf/rlinf/tensor"
)

// An estimator computes the advantages and returns of a rollout. It fills adv and ret, [T·N], for all samples whose
// weight is not 0. To drop samples, it can set more weights to 0.
type estimator func(adv, ret []float32, x *experience) error

// An experience is the input of an estimator.
type experience struct {
	*Trajectory
	Weight   []float32 // [T·N]: the weight of each sample in the loss; nil if all weights are 1
	LogRatio []float32 // [T·N]: log π(a) - log π_ref(a) of each sample; nil without a reference policy
	Episodes *episodes // nil if adv_type is gae and loss_agg_func is token-mean
}

// advantages computes the advantages and returns of rollouts. It also computes the weights of samples, unless all
// weights are 1.
type advantages struct {
	*rolloutView
	estimator estimator
	normalize Normalization
	aggregate string // Config.LossAggFunc
	replicas  Replicas

	rewards  *rewardScale // nil if rewards are not normalised
	scaled   []float32    // normalised rewards
	episodes *episodes    // nil if adv_type is gae and loss_agg_func is token-mean

	adv, ret, weight tensor.Tensor // F32 [T,N]; with units > 1 [T·C,N], one for each action
	added            tensor.Dict   // adv, ret and weight in the layout of rollouts; with units > 1 [T,N,C]
	moments          [3]float64
}

func newAdvantages(s *Setup, e estimator, n Normalization) *advantages {
	a := &advantages{
		rolloutView: newRolloutView(s), estimator: e, normalize: n, aggregate: s.Config.LossAggFunc,
		replicas: s.Replicas,
	}
	units := a.samples() * a.units
	if s.Config.NormalizeRewards {
		a.rewards = newRewardScale(s.Config.Gamma, s.Config.RewardClip, s.Envs)
		a.scaled = make([]float32, units)
	}
	for name, t := range map[string]*tensor.Tensor{FieldAdvantage: &a.adv, FieldReturn: &a.ret, "weight": &a.weight} {
		*t = tensor.New(tensor.F32, s.Steps*a.units, s.Envs)
		if a.units == 1 {
			a.added.Set(name, *t)
		} else {
			a.added.Set(name, tensor.New(tensor.F32, s.Steps, s.Envs, a.units))
		}
	}
	if s.Config.AdvType != "gae" || s.Config.LossAggFunc != TokenMean {
		a.episodes = newEpisodes(units)
	}
	return a
}

// weigh returns the weight of each sample: its mask, or 1 without a mask. It returns nil if there is neither a mask nor
// a.episodes. If a.episodes is not nil, weigh also fills a.episodes.
func (a *advantages) weigh(tr *Trajectory, mask []uint8) []float32 {
	if a.episodes != nil {
		a.episodes.find(tr, mask)
	}
	if mask == nil && a.episodes == nil {
		return nil
	}
	weight := a.weight.F32()
	for i := range weight {
		weight[i] = 1
		if mask != nil {
			weight[i] = float32(mask[i])
		}
	}
	return weight
}

// estimate fills a.adv and a.ret.
func (a *advantages) estimate(x *experience) error {
	return a.estimator(a.adv.F32(), a.ret.F32(), x)
}

// standardise normalises the advantages over the rollouts of all replicas. It does nothing unless
// a.normalize is NormalizeBatch.
func (a *advantages) standardise(weight []float32) error {
	if a.normalize != NormalizeBatch {
		return nil
	}
	return standardise(a.adv.F32(), weight, &a.moments, a.replicas)
}

// standardise shifts and scales adv. Over all replicas, the advantages whose weight is not 0 then have mean 0 and
// deviation 1. sums is scratch space.
func standardise(adv, weight []float32, sums *[3]float64, r Replicas) error {
	clear(sums[:])
	for i, x := range adv {
		if !idle(weight, i) {
			sums[0]++
			sums[1] += float64(x)
			sums[2] += float64(x) * float64(x)
		}
	}
	if err := r.Sum(sums[:]); err != nil {
		return err
	}
	shift, inv := standard(sums[0], sums[1], sums[2])
	for i := range adv {
		adv[i] = (adv[i] - shift) * inv
	}
	return nil
}

const normEps = 1e-5 // added to the deviation of advantages, as in RLinf

// standard returns the shift and the factor that give n numbers mean 0 and (unbiased) deviation 1.
// sum and sq are the sums of the numbers and of their squares.
func standard(n, sum, sq float64) (shift, inv float32) {
	if n < 2 {
		return 0, 1
	}
	mean := sum / n
	return float32(mean), float32(1 / (math.Sqrt(max(sq-n*mean*mean, 0)/(n-1)) + normEps))
}

// addTo adds advantages and returns to a rollout. It also adds weights, unless weight is nil.
func (a *advantages) addTo(rollout *tensor.Dict, weight []float32) {
	add := func(name string, t tensor.Tensor) {
		added := a.added.Must(name)
		if a.units > 1 {
			toChunks(added.F32(), t.F32(), a.envs, a.units)
		}
		rollout.Set(name, added)
	}
	add(FieldAdvantage, a.adv)
	add(FieldReturn, a.ret)
	if weight != nil {
		add("weight", a.weight)
	}
}
