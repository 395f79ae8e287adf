package embodied

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Actors with equal parameters continue to train. If the parameters of one actor differ, the job ends with an error
// that names the tensor and the actor.
func TestReplicasAreCompared(t *testing.T) {
	overrides := []string{"comm.check_replicas=2", "env.train.total_num_envs=8",
		"env.train.max_steps_per_rollout_epoch=16",
		"actor.global_batch_size=64", "actor.micro_batch_size=32"}
	onRanks(t, 2, "../../configs/"+
		"cartpole_collocated.yaml", overrides, func(ctx context.Context, r *EmbodiedRunner) error {
		for range 4 {
			if err := r.iterate(ctx); err != nil {
				return err
			}
		}
		actor := r.Actor.Here()[0]
		if actor.Index() == 1 {
			actor.Policy().Params().Data[actor.Policy().Params().Fields[2].Off] += 1e-3
		}
		if err := actor.CompareReplicas(ctx, nil); err != nil { // no comparison yet: every second iteration has one
			return fmt.Errorf("compared too early: %w", err)
		}
		err := actor.CompareReplicas(ctx, nil)
		want := actor.Policy().Params().Fields[2].Name + " has checksum"
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "on member 1 (rank 1)") {
			return fmt.Errorf("actor 1 has drifted: %v, want %q", err, want)
		}
		return nil
	})
}

// The error of compressed gradients is less than the last bit of a bfloat16, and not 0.
func TestCompressionIsReported(t *testing.T) {
	overrides := []string{"comm.compression=bf16", "env.train.total_num_envs=8",
		"env.train.max_steps_per_rollout_epoch=16",
		"actor.global_batch_size=64", "actor.micro_batch_size=32"}
	onRanks(t, 2, "../../configs/"+
		"cartpole_collocated.yaml", overrides, func(ctx context.Context, r *EmbodiedRunner) error {
		for range 2 {
			if err := r.iterate(ctx); err != nil {
				return err
			}
		}
		if r.Actor.Here()[0].Index() > 0 {
			return nil
		}
		i := slices.Index(r.loop.Report().Names, "actor/compression_error")
		if i < 0 || r.loop.Report().Values[i] <= 1e-5 || r.loop.Report().Values[i] > 1./256 {
			return fmt.Errorf("compression_error is metric %d of %v %v: want it between 0.00001 and 1/256", i,
				r.loop.Report().Names, r.loop.Report().Values)
		}
		return nil
	})
}
