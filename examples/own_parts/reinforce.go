package main

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// reinforce takes one optimizer step per rollout along Σ (return - mean) ∇ log π(action), Williams
// 1992.
type reinforce struct {
	algo.Setup
	adam     *algo.Adam
	work     policy.Work
	adv, ret tensor.Tensor // [T,N]
	none     []float32     // zeros in place of a critic's values
	dLogProb tensor.Tensor
	counters tensor.Tensor // I64 [1]: iterations done
}

func newReinforce(s algo.Setup) (algo.Algorithm, error) {
	adam, err := algo.NewAdam(s.Policy.Params(), s.Optim, s.Iterations, s.Alloc)
	n := s.Steps * s.Envs
	return &reinforce{
		Setup: s, adam: adam, work: s.Policy.NewWork(n), none: make([]float32, n),
		adv: tensor.New(tensor.F32, s.Steps, s.Envs), ret: tensor.New(tensor.F32, s.Steps, s.Envs),
		dLogProb: tensor.New(tensor.F32, n, 1), counters: tensor.New(tensor.I64, 1),
	}, err
}

func (r *reinforce) Prepare(rollout *tensor.Dict) error {
	tr := &algo.Trajectory{
		T: r.Steps, N: r.Envs, Reward: rollout.Must("reward").F32(), Value: r.none, Next: r.none,
		Terminated: rollout.Must("terminated").U8(), Truncated: rollout.Must("truncated").U8(),
	}
	algo.GAE(r.adv.F32(), r.ret.F32(), tr, r.Config.Gamma, 1) // without a critic: the discounted return
	rollout.Set("advantage", r.adv)
	rollout.Set("return", r.ret)
	return nil
}

func (r *reinforce) Update(rollout tensor.Dict) (algo.Metrics, error) {
	n := r.Steps * r.Envs
	rows := func(t tensor.Tensor) tensor.Tensor { // [T,N,...] → [T·N,...]
		return t.Reshape(append([]int{n}, t.Shape()[2:]...)...)
	}
	var obs tensor.Dict
	seen := rollout.Sub("observation")
	for i := range seen.Len() {
		name, t := seen.Entry(i)
		obs.Set(name, rows(t))
	}
	sums := []float64{float64(n), 0} // number of samples and sum of returns, over all replicas
	for _, x := range r.adv.F32() {
		sums[1] += float64(x)
	}
	if err := r.Replicas.Sum(sums); err != nil {
		return algo.Metrics{}, err
	}
	mean := sums[1] / sums[0]
	for i, x := range r.adv.F32() {
		r.dLogProb.F32()[i] = float32(-(float64(x) - mean) / sums[0])
	}

	params := r.Policy.Params()
	clear(params.Grad)
	sum := r.Replicas.Gradient(params.Grad)
	if _, err := r.Policy.Evaluate(r.work, obs, rows(rollout.Must("action"))); err != nil {
		return algo.Metrics{}, err
	}
	if err := r.Policy.Backward(r.work, policy.Grad{LogProb: r.dLogProb}, sum.Ready); err != nil {
		return algo.Metrics{}, err
	}
	if err := sum.Wait(nil); err != nil {
		return algo.Metrics{}, err
	}
	r.adam.Step(int(r.counters.I64()[0]), 1)
	r.counters.I64()[0]++
	return algo.Metrics{Names: []string{"rollout/returns_mean"}, Values: []float64{mean}}, nil
}

func (r *reinforce) Save() (tensor.Dict, error) {
	var d tensor.Dict
	d.Set("counters", r.counters)
	r.adam.Save(&d)
	return d, nil
}

func (r *reinforce) Load(from tensor.Dict) error {
	state, err := r.Save() // views of this algorithm's memory
	if err == nil {
		state.CopyFrom(from)
	}
	return err
}
