package worker

import (
	"context"

	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
)

// gradients is what the actors' communicator is for.
const gradients = "gradients"

// LaunchActor launches the group of actors. Like all launches it is collective over the world.
func LaunchActor(ctx context.Context, w *spmd.World, j *job.Job, ws *Weights) (*spmd.Group[*ActorWorker], error) {
	spec := j.Placement.Group("actor")
	spec.Comms = []string{gradients}
	return spmd.Launch(w, spec, func(m *spmd.Member) (*ActorWorker, error) { return NewActorWorker(ctx, m, j, ws) })
}

// LaunchEnv launches the group of env workers.
func LaunchEnv(w *spmd.World, j *job.Job) (*spmd.Group[*EnvWorker], error) {
	return spmd.Launch(w, j.Placement.Group("env"), func(m *spmd.Member) (*EnvWorker, error) {
		return NewEnvWorker(m, j)
	})
}

// LaunchRollout launches the group of rollout workers, after that of env workers: some step the
// environments of their rank themselves.
func LaunchRollout(w *spmd.World, j *job.Job, ws *Weights, envs *spmd.Group[*EnvWorker]) (*spmd.Group[*RolloutWorker],
	error) {
	here := envs.Here()
	return spmd.Launch(w, j.Placement.Group("rollout"), func(m *spmd.Member) (*RolloutWorker, error) {
		return NewRolloutWorker(m, j, ws, here), nil
	})
}

// LaunchReward launches the group of reward workers.
func LaunchReward(w *spmd.World, j *job.Job) (*spmd.Group[*RewardWorker], error) {
	return spmd.Launch(w, j.Placement.Group("reward"), func(m *spmd.Member) (*RewardWorker, error) {
		return NewRewardWorker(m, j)
	})
}

// LaunchInference launches the group of inference workers.
func LaunchInference(w *spmd.World, j *job.Job, ws *Weights) (*spmd.Group[*InferenceWorker], error) {
	return spmd.Launch(w, j.Placement.Group("inference"), func(m *spmd.Member) (*InferenceWorker, error) {
		return NewInferenceWorker(m, j, ws), nil
	})
}
