package roles_test

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles"
	"github.com/rlinf/rlinf/tensor"
)

// PPO learns to balance a pole in one process: collect 8 steps in each of 4 environments, update,
// twice; then evaluate.
func ExampleTrainer() {
	cartpole := env.DefaultConfig()
	cartpole.EnvType, cartpole.TotalNumEnvs = "CartPole-v1", 4
	evaluator, err := roles.NewEvaluator(all.Registry(), cartpole)
	if err != nil {
		panic(err)
	}
	pol, err := policy.NewMLP(policy.DefaultConfig(), evaluator.Spec(), 1, tensor.Heap)
	if err != nil {
		panic(err)
	}
	optim := algo.DefaultOptimConfig()
	optim.LR = 1e-3
	algorithm, err := algo.NewPPO(algo.Setup{Config: algo.DefaultConfig(), Optim: optim,
		GlobalBatch: 32, Iterations: 2, Steps: 8, Envs: 4, Policy: pol})
	if err != nil {
		panic(err)
	}
	collector, err := roles.NewSyncCollector(all.Registry(), cartpole, pol, 1)
	if err != nil {
		panic(err)
	}

	trainer := &roles.Trainer{Policy: pol, Algorithm: algorithm, Collector: collector, Evaluator: evaluator}
	err = trainer.Train(context.Background(), 2, 8, func(s roles.TrainerStep) error {
		_, known := s.Metrics.Get("loss")
		fmt.Println("epoch", s.Epoch, "loss", known)
		return nil
	})
	if err != nil {
		panic(err)
	}
	eval, err := trainer.Evaluate(10, true)
	fmt.Println(eval.NumTrajectories, "episodes", eval.Return > 0, err)
	// Output:
	// epoch 0 loss true
	// epoch 1 loss true
	// 10 episodes true <nil>
}
