package runner

import (
	"context"
)

// Train is the program of rlinf: FineTune for a job of the task sft, Reason for reasoning,
// TrainEmbodied for others.
func Train(ctx context.Context, c *Cluster) error {
	if c.job.Config.Reasons() {
		return Reason(ctx, c)
	}
	if c.job.Tuning != nil {
		return FineTune(ctx, c)
	}
	return TrainEmbodied(ctx, c)
}

// FineTune trains a language model on texts. It launches the actors, and lets an SFTRunner lead them.
func FineTune(ctx context.Context, c *Cluster) error {
	actor, err := Launch(ctx, c, NewHybridComponentPlacement(c).Strategy("actor"), NewSFTWorker)
	if err != nil {
		return err
	}
	r, err := NewSFTRunner(ctx, c, actor)
	if err != nil {
		return err
	}
	return r.run(ctx)
}

// Reason trains a language model on its own answers. It launches a group for each component that has a
// place, and lets a ReasoningRunner lead them.
func Reason(ctx context.Context, c *Cluster) error {
	g, err := LaunchReasoning(ctx, c)
	if err != nil {
		return err
	}
	r, err := NewReasoningRunner(ctx, c, g)
	if err != nil {
		return err
	}
	return r.run(ctx)
}

// TrainEmbodied is the program of a job with environments. It launches a group for each component
// that has a place, and lets an EmbodiedRunner lead them.
func TrainEmbodied(ctx context.Context, c *Cluster) error {
	g, err := LaunchEmbodied(ctx, c)
	if err != nil {
		return err
	}
	r, err := NewEmbodiedRunner(c, g)
	if err != nil {
		return err
	}
	if err := r.InitWorkers(ctx); err != nil {
		return err
	}
	return r.Run(ctx)
}

// LaunchEmbodied launches the groups that an EmbodiedRunner leads: those that have a place. Like all
// launches it is collective over the world.
func LaunchEmbodied(ctx context.Context, c *Cluster) (g Groups, err error) {
	placement := NewHybridComponentPlacement(c)
	if g.Actor, err = Launch(ctx, c, placement.Strategy("actor"), NewActorWorker); err != nil {
		return g, err
	}
	if g.Rollout, err = Launch(ctx, c, placement.Strategy("rollout"), NewRolloutWorker); err != nil {
		return g, err
	}
	if g.Env, err = Launch(ctx, c, placement.Strategy("env"), NewEnvWorker); err != nil {
		return g, err
	}
	if placement.Has("reward") {
		if g.Reward, err = Launch(ctx, c, placement.Strategy("reward"), NewRewardWorker); err != nil {
			return g, err
		}
	}
	if placement.Has("inference") {
		if g.Inference, err = Launch(ctx, c, placement.Strategy("inference"), NewInferenceWorker); err != nil {
			return g, err
		}
	}
	return g, nil
}
