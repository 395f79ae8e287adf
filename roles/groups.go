package roles

import (
	"context"

	"github.com/rlinf/rlinf/spmd"
)

// gradients is what the actors' communicator is for.
const gradients = "gradients"

// launchActor launches the group of actors. Like all launches it is collective over the world.
func launchActor(ctx context.Context, w *spmd.World, j *job, ws *weights) (*spmd.Group[*ActorWorker], error) {
	spec := j.place.Group("actor")
	spec.Comms = []string{gradients}
	return spmd.Launch(w, spec, func(m *spmd.Member) (*ActorWorker, error) { return NewActorWorker(ctx, m, j, ws) })
}

// launchEnv launches the group of env workers.
func launchEnv(w *spmd.World, j *job) (*spmd.Group[*EnvWorker], error) {
	return spmd.Launch(w, j.place.Group("env"), func(m *spmd.Member) (*EnvWorker, error) { return NewEnvWorker(m, j) })
}

// launchRollout launches the group of rollout workers, after that of env workers: some step the
// environments of their rank themselves.
func launchRollout(w *spmd.World, j *job, ws *weights, envs *spmd.Group[*EnvWorker]) (*spmd.Group[*RolloutWorker],
	error) {
	here := envs.Here()
	return spmd.Launch(w, j.place.Group("rollout"), func(m *spmd.Member) (*RolloutWorker, error) {
		return NewRolloutWorker(m, j, ws, here), nil
	})
}

// launchReward launches the group of reward workers.
func launchReward(w *spmd.World, j *job) (*spmd.Group[*RewardWorker], error) {
	return spmd.Launch(w, j.place.Group("reward"), func(m *spmd.Member) (*RewardWorker, error) {
		return NewRewardWorker(m, j)
	})
}

// launchInference launches the group of inference workers.
func launchInference(w *spmd.World, j *job, ws *weights) (*spmd.Group[*InferenceWorker], error) {
	return spmd.Launch(w, j.place.Group("inference"), func(m *spmd.Member) (*InferenceWorker, error) {
		return NewInferenceWorker(m, j, ws), nil
	})
}
