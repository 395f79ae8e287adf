package roles

import (
	"context"

	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/cli"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied"
	"github.com/rlinf/rlinf/roles/embodied/worker"
	"github.com/rlinf/rlinf/roles/language"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/spmd"
)

// A Program is the work of a job on every rank. Its Cluster has the ranks of the job, and the configuration.
type (
	Program = loop.Program
	Cluster = loop.Cluster
)

// Run is Main with a program of your own, which runs on each rank of a job that trains. The program of Main is
// FineTune for the task sft, Reason for the task reasoning, and TrainEmbodied for all others.
func Run(args []string, reg Registries, program Program) int {
	return cli.Run(args, reg, tasks(), cli.Own{Program: program})
}

// RunMovable is Run with a program that can continue in another world, after its members have moved to other ranks. If
// Next or Run of a runner returns spmd.Again, the program returns this error, too. It is called again, with another
// Cluster, so it keeps no state of its own between iterations. Only a movable program can be moved by rlinf scale or
// cluster.auto_scheduler. The program's own workers begin anew after a move, unless EmbodiedRunner.Carry gives them to
// the runner.
func RunMovable(args []string, reg Registries, program Program) int {
	return cli.Run(args, reg, tasks(), cli.Own{Program: program, Movable: true})
}

// FineTune is the program of the task sft: an SFTRunner trains a language model on texts.
func FineTune(ctx context.Context, c *Cluster) error { return language.FineTune(ctx, c) }

// Reason is the program of the task reasoning: a ReasoningRunner trains a language model on its own answers.
func Reason(ctx context.Context, c *Cluster) error { return language.Reason(ctx, c) }

// TrainEmbodied is the program of the other tasks. It launches a group for each component that has a place, and
// runs an EmbodiedRunner with them.
func TrainEmbodied(ctx context.Context, c *Cluster) error { return embodied.Train(ctx, c) }

// A HybridComponentPlacement says on which ranks each component has its workers.
type HybridComponentPlacement = loop.HybridComponentPlacement

// NewHybridComponentPlacement returns the placement of c's components.
func NewHybridComponentPlacement(c *Cluster) HybridComponentPlacement {
	return loop.NewHybridComponentPlacement(c)
}

// Launch launches a group of workers. The function new makes the worker of each member of the group at. It may be a
// function below, or your own. Collective over the world: every rank makes the same launches, in the same order.
func Launch[W any](ctx context.Context, c *Cluster, at spmd.GroupSpec,
	new func(context.Context, *Cluster, *spmd.Member) (W, error)) (*spmd.Group[W], error) {
	return loop.Launch(ctx, c, at, new)
}

// LaunchEmbodied launches the groups of an EmbodiedRunner: one for each component that has a place.
func LaunchEmbodied(ctx context.Context, c *Cluster) (Groups, error) {
	return embodied.LaunchEmbodied(ctx, c)
}

// The workers of RLinf's components.
type (
	ActorWorker     = worker.ActorWorker
	RolloutWorker   = worker.RolloutWorker
	EnvWorker       = worker.EnvWorker
	RewardWorker    = worker.RewardWorker
	InferenceWorker = worker.InferenceWorker
)

// NewActorWorker makes the worker of a member of the component actor, for Launch.
func NewActorWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*ActorWorker, error) {
	return worker.NewActorWorker(ctx, c, m)
}

// NewRolloutWorker makes the worker of a member of the component rollout, for Launch.
func NewRolloutWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*RolloutWorker, error) {
	return worker.NewRolloutWorker(ctx, c, m)
}

// NewEnvWorker makes the worker of a member of the component env, for Launch.
func NewEnvWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*EnvWorker, error) {
	return worker.NewEnvWorker(ctx, c, m)
}

// NewRewardWorker makes the worker of a member of the component reward, for Launch.
func NewRewardWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*RewardWorker, error) {
	return worker.NewRewardWorker(ctx, c, m)
}

// NewInferenceWorker makes the worker of a member of the component inference, for Launch.
func NewInferenceWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*InferenceWorker, error) {
	return worker.NewInferenceWorker(ctx, c, m)
}

// An EmbodiedRunner trains a policy in environments, with the workers in Groups.
type (
	EmbodiedRunner = embodied.EmbodiedRunner
	Groups         = embodied.Groups
)

// NewEmbodiedRunner returns the runner of the groups g, and makes the channels between them. Collective over the
// world. A job has one runner.
func NewEmbodiedRunner(c *Cluster, g Groups) (*EmbodiedRunner, error) {
	return embodied.NewEmbodiedRunner(c, g)
}

// Types of the configuration: a Config, what its algorithm learns from (Learning), its LanguageModel, its mistakes
// (Check), a key of a user's own part (OwnKey), and a key without effect (Ignored).
type (
	Config        = config.Config
	Learning      = config.Learning
	LanguageModel = config.LanguageModel
	LayoutConfig  = config.LayoutConfig
	Check         = yaml.Check
	OwnKey        = yaml.OwnKey
	Ignored       = yaml.Ignored
)

// Types of workers' arguments and results. A loop of your own does not need them.
type (
	Arrivals       = worker.Arrivals
	RewardChannels = worker.RewardChannels
	Member         = loop.Member
	Share          = member.Share
	State          = member.State
)
