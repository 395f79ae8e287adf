package main

import (
	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/tensor"
)

// thriftyKeys are the keys of the algorithm "thrifty", in the section algorithm.
type thriftyKeys struct {
	Price float32 `yaml:"action_price" doc:"What a squared action takes from the reward of its step."`
}

func (k thriftyKeys) Check(want algo.Want) {
	want(k.Price >= 0, "action_price", k.Price, "a number >= 0")
}

// addThrifty adds the algorithm "thrifty", for adv_type gae.
func addThrifty(r *algo.Registry) {
	algo.Register(r, "gae", "thrifty", thriftyKeys{Price: 0.01}, newThrifty)
}

// thrifty is PPO with a penalty for large actions, which is subtracted from the rewards.
type thrifty struct {
	algo.Algorithm
	price  float32
	reward tensor.Tensor // [T,N]
}

func newThrifty(s algo.Setup, keys thriftyKeys) (algo.Algorithm, error) {
	s.Config.LossType = "actor_critic"
	ppo, err := algo.NewPPO(s)
	return &thrifty{ppo, keys.Price, tensor.New(tensor.F32, s.Steps, s.Envs)}, err
}

func (t *thrifty) Prepare(rollout *tensor.Dict) error {
	paid, action := rollout.Must("reward").F32(), rollout.Must("action").F32()
	size := len(action) / len(paid)
	for i, r := range paid {
		for _, a := range action[i*size : (i+1)*size] {
			r -= t.price * a * a
		}
		t.reward.F32()[i] = r
	}
	rollout.Set("reward", t.reward)
	return t.Algorithm.Prepare(rollout)
}
