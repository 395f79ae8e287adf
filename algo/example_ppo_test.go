package algo_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// PPO learns which of two arms pays: an episode is one step, of 64 environments at once.
func ExampleNewPPO() {
	number := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}}
	pol, err := policy.NewMLP(policy.DefaultConfig(), env.Spec{Obs: []env.Field{{Name: "state", Space: number}},
		Action: env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}}}, 1, tensor.Heap)
	if err != nil {
		log.Fatal(err)
	}
	const n = 64
	optim := algo.DefaultOptimConfig()
	optim.LR = 0.01
	ppo, err := algo.NewPPO(algo.Setup{Config: algo.DefaultConfig(), Optim: optim, GlobalBatch: n, Iterations: 20,
		Steps: 1, Envs: n, Policy: pol})
	if err != nil {
		log.Fatal(err)
	}
	work, noise := pol.NewWork(n), policy.Noise{Seed: 1, Env: make([]uint64, n), Step: make([]uint64, n)}
	for range 20 {
		act, rollout, reward := play(pol, work, noise, n)
		for i, arm := range act.Action.I32() {
			reward[i] = float32(arm) // the second arm pays 1
		}
		if err := ppo.Prepare(&rollout); err != nil { // advantages
			log.Fatal(err)
		}
		if _, err := ppo.Update(rollout); err != nil { // minibatches, gradients, steps of the optimiser
			log.Fatal(err)
		}
	}
	_, rollout, _ := play(pol, work, noise, n)
	fmt.Println(rollout.Must("action").I32()[:8])
	// Output: [1 1 1 1 1 1 1 1]
}

// play asks the policy about n environments that observe 0. The rollout of one step lacks the rewards.
func play(pol policy.Policy, work policy.Work, noise policy.Noise, n int) (policy.Act, tensor.Dict, []float32) {
	var obs, rollout tensor.Dict
	obs.Set("state", tensor.New(tensor.F32, n, 1))
	for i := range noise.Env {
		noise.Env[i] = uint64(i)
		noise.Step[i]++
	}
	act, err := pol.Forward(work, obs, policy.Sample, noise)
	if err != nil {
		log.Fatal(err)
	}
	ends := tensor.New(tensor.U8, 1, n)
	for i := range ends.U8() {
		ends.U8()[i] = 1
	}
	rollout.Set("observation.state", tensor.New(tensor.F32, 1, n, 1))
	rollout.Set("action", act.Action.Reshape(1, n, 1, 1))
	rollout.Set("sample_log_prob", act.LogProb.Reshape(1, n, 1))
	rollout.Set("value", act.Value.Reshape(1, n, 1))
	rollout.Set("next_value", tensor.New(tensor.F32, 1, n))
	rollout.Set("reward", tensor.New(tensor.F32, 1, n))
	rollout.Set("terminated", ends)
	rollout.Set("truncated", tensor.New(tensor.U8, 1, n))
	return act, rollout, rollout.Must("reward").F32()
}
