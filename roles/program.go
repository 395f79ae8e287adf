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
	"github.com/rlinf/rlinf/spmd"
)

// A Program is the function that a training job runs on every rank. Its Cluster has the ranks of the job, and the
// configuration.
type (
	Program = loop.Program
	Cluster = loop.Cluster
)

// Run is like Main, but every rank of a training job runs program. Main runs FineTune for the sft task, Reason for the
// reasoning task, and TrainEmbodied for all others.
func Run(args []string, reg Registries, program Program) int {
	return cli.Run(args, reg, tasks(), cli.Own{Program: program})
}

// RunMovable is like Run, for a program whose workers can move to other ranks during the job. rlinf scale and
// cluster.auto_scheduler move only such programs. If Next or Run of a runner returns spmd.Again, the program must
// return this error. The program is then called again with another Cluster, so it must keep no state. Its own workers
// lose their state in a move, unless EmbodiedRunner.Carry registers these workers.
func RunMovable(args []string, reg Registries, program Program) int {
	return cli.Run(args, reg, tasks(), cli.Own{Program: program, Movable: true})
}

// FineTune is the program of the sft task: an SFTRunner trains a language model on texts.
func FineTune(ctx context.Context, c *Cluster) error { return language.FineTune(ctx, c) }

// Reason is the program of the reasoning task: a ReasoningRunner trains a language model on its own answers.
func Reason(ctx context.Context, c *Cluster) error { return language.Reason(ctx, c) }

// TrainEmbodied is the program of the other tasks. It launches a group for each component in the placement, and runs
// an EmbodiedRunner with these groups.
func TrainEmbodied(ctx context.Context, c *Cluster) error { return embodied.Train(ctx, c) }

// A HybridComponentPlacement has the ranks of each component's workers.
type HybridComponentPlacement = loop.HybridComponentPlacement

// NewHybridComponentPlacement returns the placement of c's components.
func NewHybridComponentPlacement(c *Cluster) HybridComponentPlacement {
	return loop.NewHybridComponentPlacement(c)
}

// Launch launches the group of workers that spec describes. newWorker makes the worker of each member: pass a
// constructor below, or your own. Every rank must make the same launches, in the same order.
func Launch[W any](ctx context.Context, c *Cluster, spec spmd.GroupSpec,
	newWorker func(context.Context, *Cluster, *spmd.Member) (W, error)) (*spmd.Group[W], error) {
	return loop.Launch(ctx, c, spec, newWorker)
}

// LaunchEmbodied launches the groups of an EmbodiedRunner: one for each component in the placement.
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

// NewActorWorker makes one worker of the component actor. It is a constructor for Launch.
func NewActorWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*ActorWorker, error) {
	return worker.NewActorWorker(ctx, c, m)
}

// NewRolloutWorker makes one worker of the component rollout. It is a constructor for Launch.
func NewRolloutWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*RolloutWorker, error) {
	return worker.NewRolloutWorker(ctx, c, m)
}

// NewEnvWorker makes one worker of the component env. It is a constructor for Launch.
func NewEnvWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*EnvWorker, error) {
	return worker.NewEnvWorker(ctx, c, m)
}

// NewRewardWorker makes one worker of the component reward. It is a constructor for Launch.
func NewRewardWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*RewardWorker, error) {
	return worker.NewRewardWorker(ctx, c, m)
}

// NewInferenceWorker makes one worker of the component inference. It is a constructor for Launch.
func NewInferenceWorker(ctx context.Context, c *Cluster, m *spmd.Member) (*InferenceWorker, error) {
	return worker.NewInferenceWorker(ctx, c, m)
}

// An EmbodiedRunner trains a policy in environments, with the workers in Groups.
type (
	EmbodiedRunner = embodied.EmbodiedRunner
	Groups         = embodied.Groups
)

// NewEmbodiedRunner returns the runner of the groups g, and makes the channels between them. Every rank
// must call it. A job has one runner.
func NewEmbodiedRunner(c *Cluster, g Groups) (*EmbodiedRunner, error) {
	return embodied.NewEmbodiedRunner(c, g)
}

// A ReasoningRunner trains a language model on its own answers, with the workers in ReasoningGroups. An SFTRunner
// trains one on texts.
type (
	ReasoningRunner = language.ReasoningRunner
	ReasoningGroups = language.ReasoningGroups
	SFTRunner       = language.SFTRunner
	SFTGroups       = language.SFTGroups
)

// LaunchReasoning launches the groups of a ReasoningRunner: one for each component in the placement.
func LaunchReasoning(ctx context.Context, c *Cluster) (ReasoningGroups, error) {
	return language.LaunchReasoning(ctx, c)
}

// NewReasoningRunner returns the runner of the groups g, and makes the channels between them. Every rank must call it.
// A job has one runner.
func NewReasoningRunner(ctx context.Context, c *Cluster, g ReasoningGroups) (*ReasoningRunner, error) {
	return language.NewReasoningRunner(ctx, c, g)
}

// LaunchSFT launches the group of an SFTRunner. Every rank must call it.
func LaunchSFT(ctx context.Context, c *Cluster) (SFTGroups, error) { return language.LaunchSFT(ctx, c) }

// NewSFTRunner returns the runner of the group in g. Every rank must call it. A job has one runner.
func NewSFTRunner(ctx context.Context, c *Cluster, g SFTGroups) (*SFTRunner, error) {
	return language.NewSFTRunner(ctx, c, g)
}

// Types of the configuration. Learning describes the data that an algorithm learns from. A Check collects mistakes. An
// OwnKey is a key of your own part. An Ignored is a key without effect.
type (
	Config        = config.Config
	Classifier    = config.ClassifierKeys
	Learning      = config.Learning
	LanguageModel = config.LanguageModel
	LayoutConfig  = config.LayoutConfig
	Check         = yaml.Check
	OwnKey        = yaml.OwnKey
	Ignored       = yaml.Ignored
)

// Types of arguments and results of the workers' methods. Your own program need not name them.
type (
	Arrivals       = worker.Arrivals
	RewardChannels = worker.RewardChannels
	Member         = loop.OwnWorker
)
