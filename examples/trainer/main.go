// Command trainer trains a policy in one process, without ranks or YAML: create the policy, the
// algorithm, the collector and the environments; then collect, update, evaluate.
//
//	go run ./examples/trainer
package main

import (
	"context"
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
	seed    = 1
	nEnvs   = 8
	nSteps  = 64
	nEpochs = 200
)

func main() {
	trainer, err := newTrainer()
	if err != nil {
		log.Fatal(err)
	}
	// The training loop: collect nSteps in every environment, update the policy, look at how it
	// does.
	err = trainer.Train(context.Background(), nEpochs, nSteps, func(s roles.TrainerStep) error {
		if (s.Epoch+1)%25 != 0 {
			return nil
		}
		eval, err := trainer.Evaluate()
		fmt.Printf("epoch %3d  return %5.1f  evaluation %5.1f\n", s.Epoch+1, s.Episodes.Return, eval.Return)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}
}

// newTrainer creates the components.
func newTrainer() (*roles.Trainer, error) {
	envs := all.Registry()
	cartpole := env.DefaultConfig()
	cartpole.EnvType, cartpole.TotalNumEnvs, cartpole.Seed = "CartPole-v1", nEnvs, seed
	test := cartpole
	test.TotalNumEnvs = 20
	evaluator, err := roles.NewEvaluator(envs, test)
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

	collector, err := roles.NewSyncCollector(envs, cartpole, pol, seed)
	if err != nil {
		return nil, err
	}
	return &roles.Trainer{Policy: pol, Algorithm: algorithm, Collector: collector, Evaluator: evaluator}, nil
}
