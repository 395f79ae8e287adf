package roles

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/classifier"
	"github.com/rlinf/rlinf/roles/cli"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/roles/trainer"
)

// Registries hold the parts that a job can use. Your own main function can add more.
type Registries = config.Registries

// Main runs the command line args (os.Args) with the parts in reg, and returns the exit code. Your own main function is
//
//	func main() { os.Exit(roles.Main(os.Args, registries)) }
func Main(args []string, reg Registries) int { return cli.Run(args, reg, tasks(), cli.Own{}) }

// tasks returns the kinds of jobs. The first one reports an unknown task.
func tasks() task.Tasks {
	return task.Tasks{embodied.Task{}, classifier.Task{}, language.FineTuning{}, language.Reasoning{}}
}

// Exit codes of Main; see README.
const (
	ExitOK          = loop.ExitOK
	ExitFailed      = loop.ExitFailed
	ExitConfig      = loop.ExitConfig
	ExitCheck       = loop.ExitCheck
	ExitRequeue     = loop.ExitRequeue
	ExitStalled     = loop.ExitStalled
	ExitHungUp      = loop.ExitHungUp
	ExitInterrupted = loop.ExitInterrupted
	ExitCrashed     = loop.ExitCrashed
	ExitTerminated  = loop.ExitTerminated
)

// A Trainer trains a policy in one process: it collects, updates and evaluates. A TrainerStep is the result of one
// round.
type (
	Trainer     = trainer.Trainer
	TrainerStep = trainer.Step
)

// A Collector makes rollouts. A SyncCollector works in the caller's goroutine, an AsyncCollector in the background.
type (
	Collector      = trainer.Collector
	SyncCollector  = trainer.SyncCollector
	AsyncCollector = trainer.AsyncCollector
)

// NewSyncCollector makes the environments of cfg from reg, and collects with pol. seed determines the random numbers.
func NewSyncCollector(reg *env.Registry, cfg env.Config, pol policy.Policy, seed uint64) (*SyncCollector, error) {
	return trainer.NewSyncCollector(reg, cfg, pol, seed)
}

// NewAsyncCollector is like NewSyncCollector, but collects in the background, with copies of learner's parameters.
// actor holds the copies, and must be a policy of the same kind. The collector owns actor from now on.
func NewAsyncCollector(reg *env.Registry, cfg env.Config, learner, actor policy.Policy, seed uint64) (*AsyncCollector,
	error) {
	return trainer.NewAsyncCollector(reg, cfg, learner, actor, seed)
}

// An Evaluator plays episodes without learning from them, always from the same initial states.
type Evaluator = trainer.Evaluator

// NewEvaluator returns an Evaluator with cfg.TotalNumEnvs environments of cfg from reg.
func NewEvaluator(reg *env.Registry, cfg env.Config) (*Evaluator, error) {
	return trainer.NewEvaluator(reg, cfg)
}

// A Demonstration records episodes of an expert. Play plays the episodes, and Write writes their transitions.
type Demonstration = trainer.Demonstration
