// Command trainer trains a policy in one process, without ranks or YAML. It creates the policy, the
// algorithm, the collector and the environments. Then it collects rollouts, updates the policy and
// evaluates it.
//
//	go run ./examples/trainer            collect, then learn, in turns
//	go run ./examples/trainer -async     collect in the background, with the weights before the last update
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/tensor"
)

const (
	seed   = 1
	nEnvs  = 8
	nSteps = 64
)

func main() {
	async := flag.Bool("async", false, "collect in the background")
	nEpochs := flag.Int("epochs", 200, "how often to collect and update")
	flag.Parse()
	trainer, err := newTrainer(*async, *nEpochs)
	if err != nil {
		log.Fatal(err)
	}
	// The training loop: collect nSteps in every environment (a rollout [nSteps, nEnvs]), update
	// the policy, and report from time to time.
	err = trainer.Train(context.Background(), *nEpochs, nSteps, func(s roles.TrainerStep) error {
		if (s.Epoch+1)%25 != 0 && s.Epoch+1 != *nEpochs {
			return nil
		}
		eval, err := trainer.Evaluate(10, true)
		loss, _ := s.Metrics.Get("loss")
		fmt.Printf("epoch %3d  loss %8.3f  return %5s  evaluation %5s\n", s.Epoch+1, loss, mean(s.Episodes), mean(eval))
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// mean returns the mean return of episodes as text, or a dash if no episode ended.
func mean(s env.Summary) string {
	if s.NumTrajectories == 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f", s.Return)
}

// newTrainer creates the components.
func newTrainer(async bool, nEpochs int) (*roles.Trainer, error) {
	envs := all.Registry()
	cartpole := env.DefaultConfig()
	cartpole.EnvType, cartpole.TotalNumEnvs, cartpole.Seed = "CartPole-v1", nEnvs, seed
	evaluator, err := roles.NewEvaluator(envs, cartpole)
	if err != nil {
		return nil, err
	}
	pol, err := policy.NewMLP(policy.DefaultConfig(), evaluator.Spec(), seed, tensor.Heap)
	if err != nil {
		return nil, err
	}

	ppo, optim := algo.DefaultConfig(), algo.DefaultOptimConfig()
	ppo.Gamma, ppo.GAELambda, ppo.UpdateEpoch, ppo.ValueLossCoef = 0.98, 0.9, 10, 0.5
	optim.LR, optim.LRScheduler, optim.WeightDecay = 2e-3, "linear", 0
	algorithm, err := algo.NewPPO(algo.Setup{
		Config: ppo, Optim: optim, GlobalBatch: 128, Seed: seed, Iterations: nEpochs, Steps: nSteps, Envs: nEnvs,
		Policy: pol,
	})
	if err != nil {
		return nil, err
	}

	collector, err := newCollector(async, envs, cartpole, evaluator.Spec(), pol)
	if err != nil {
		return nil, err
	}
	return &roles.Trainer{Policy: pol, Algorithm: algorithm, Collector: collector, Evaluator: evaluator}, nil
}

// newCollector creates a collector, which collects in the background if async is true. A background
// collector has its own policy, to which it copies the parameters of pol for each rollout.
func newCollector(async bool, envs *env.Registry, cfg env.Config, spec env.Spec, pol policy.Policy) (roles.Collector,
	error) {
	if !async {
		return roles.NewSyncCollector(envs, cfg, pol, seed)
	}
	actor, err := policy.NewMLP(policy.DefaultConfig(), spec, seed, tensor.Heap)
	if err != nil {
		return nil, err
	}
	return roles.NewAsyncCollector(envs, cfg, pol, actor, seed)
}
