package embodied

import (
	"context"
	"errors"
	"fmt"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/state"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/tensor"
)

// stale lets rollouts use weights that are up to two iterations old.
var stale = slices.Concat(small, []string{"runner.weight_sync_interval=3", "algorithm.update_epoch=2"})

// TestInferredLogProbsAreTheActors: the log-probs of an inference worker have the bits of the actor's policy before the
// update. They are not those of the older policy that made the rollouts.
func TestInferredLogProbsAreTheActors(t *testing.T) {
	for _, c := range []struct {
		components string
		np         int
		more       []string
	}{
		{"actor,env,rollout,inference: 0", 1, nil},
		{"actor: 0; env,rollout: 1; inference: 2", 3,
			[]string{"weight_syncer.type=bucket", "weight_syncer.bucket.bucket_dtype=bf16"}},
		{"actor: 0-1; env: 0; rollout: 1; inference: '2:0-2'", 3,
			[]string{"spmd.nodes=3", "actor.micro_batch_size=48"}},
	} {
		t.Run(c.components, func(t *testing.T) {
			var mu sync.Mutex
			compared := 0
			path := placed(t, "../../configs/cartpole_ppo.yaml", c.components)
			more := slices.Concat(stale, []string{"algorithm.recompute_logprobs=true"}, c.more)
			onRanks(t, c.np, path, more, func(ctx context.Context, r *EmbodiedRunner) error {
				for range 2 {
					if err := r.iterate(ctx); err != nil {
						return err
					}
				}
				if err := errors.Join(r.sendInferenceWeights(ctx), r.playRollout(ctx, 0)); err != nil {
					return err
				}
				for _, a := range r.Actor.Here() {
					sampled, got := a.Batch().Must("sample_log_prob"), a.Batch().Must("prox_log_prob")
					want := tensor.New(tensor.F32, sampled.Shape()...)
					if err := algo.LogProbs(want, a.Policy(), a.Policy().NewWork(sampled.Dim(1)), a.Batch(),
						0); err != nil {
						return err
					}
					if !slices.Equal(got.F32(), want.F32()) {
						return fmt.Errorf("inferred %v, the actor says %v", got.F32(), want.F32())
					}
					if slices.Equal(got.F32(), sampled.F32()) {
						return fmt.Errorf("the rollouts' policy is the actor's: the test sees nothing")
					}
					mu.Lock()
					compared += got.Len()
					mu.Unlock()
				}
				return nil
			})
			test.Equal(t, compared, 16*12, "log-probs compared")
		})
	}
}

// With rollouts of older weights, the ratio to the policy of the rollouts is not 1 at first. The ratio to the policy
// before the update is 1.
func TestRatioStartsAtOneWhereRecomputed(t *testing.T) {
	// an iteration has one optimiser step
	once := slices.Concat(stale, []string{"algorithm.update_epoch=1", "actor.global_batch_size=192"})
	for _, recompute := range []bool{false, true} {
		names, all := metricsOf(t, 1, "actor,env,rollout,inference: 0", 3,
			append(once, fmt.Sprint("algorithm.recompute_logprobs=", recompute), "algorithm.kl_beta=0.01"))
		for i, values := range all {
			off := values[slices.Index(names, "actor/ratio_abs")]
			if fresh := recompute || i == 0; fresh != (off == 0) {
				t.Errorf("recomputed %v, iteration %d: the ratio is off 1 by %v", recompute, i, off)
			}
		}
	}
}

// Inference workers and actors give the same metrics, on any ranks, for the clip and for the reference policy.
func TestInferenceOnAnyRanks(t *testing.T) {
	for _, more := range [][]string{
		{"algorithm.recompute_logprobs=true", "algorithm.kl_beta=0.1"},
		{"algorithm.recompute_logprobs=true", "algorithm.loss_type=decoupled_actor_critic"},
	} {
		asks := slices.Concat(stale, more)
		_, want := metricsOf(t, 1, "actor,env,rollout: 0", 4, asks)
		for _, c := range []struct {
			components string
			np         int
		}{
			{"actor,env,rollout,inference: 0", 1},
			{"actor: 0; env: 1; rollout: 2; inference: 3", 4},
			{"actor: 1; env: '0:0-1'; rollout: '1:0-3'; inference: '0:0-2'", 2},
		} {
			if _, got := metricsOf(t, c.np, c.components, 4, asks); !slices.EqualFunc(got, want,
				slices.Equal[[]float64]) || len(got) != 4 {
				t.Errorf("%v, %s: %v\nby the actor %v", more, c.components, got, want)
			}
		}
	}
}

// A resumed run has the same reference policy.
func TestInferenceResumes(t *testing.T) {
	path := placed(t, "../../configs/cartpole_ppo.yaml", "actor,env,rollout,inference: 0")
	asks := slices.Concat(small, []string{"algorithm.kl_beta=0.1"})
	var saved []state.Pack
	var want, got []float64
	onRanks(t, 1, path, asks, func(ctx context.Context, r *EmbodiedRunner) error {
		if err := errors.Join(r.iterate(ctx), r.iterate(ctx)); err != nil {
			return err
		}
		for _, w := range (leader{r}).Workers() {
			pack, err := state.NewPack(w.State(state.Purpose{Step: 2}))
			if err != nil {
				return err
			}
			saved = append(saved, pack.Clone())
		}
		err := r.iterate(ctx)
		want = slices.Clone(r.loop.Report().Values)
		return err
	})
	onRanks(t, 1, path, asks, func(ctx context.Context, r *EmbodiedRunner) error {
		r.loop.Trained()
		r.loop.Trained()
		for i, w := range (leader{r}).Workers() {
			if err := saved[i].Take(w.State(state.Purpose{Step: 2, Move: true})); err != nil {
				return err
			}
		}
		if err := r.iterate(ctx); err != nil {
			return err
		}
		got = slices.Clone(r.loop.Report().Values)
		return nil
	})
	if !slices.Equal(got, want) || len(got) == 0 {
		t.Errorf("resumed %v\nundisturbed %v", got, want)
	}
}

func TestInferenceWithoutWork(t *testing.T) {
	cfg, _, err := config.Load(rolestest.Registries(),
		placed(t, "../../configs/cartpole_ppo.yaml", "actor,env,rollout,inference: 0"), nil, false)
	test.OK(t, err)
	want := "cluster.component_placement: expected no place for inference, or algorithm.recompute_logprobs or " +
		"algorithm.kl_beta (else there is nothing to infer)"
	if _, err := (Task{}).Draft(cfg, rolestest.Registries(), []int{0}).Complete(cfg,
		rolestest.Registries()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
