package embodied

import (
	"context"
	"fmt"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A slowPolicy takes 2 ms to choose for 64 environments, as a large network would, without keeping a core busy.
type slowPolicy struct{ policy.Policy }

const inferenceTime = 2 * time.Millisecond / 64

func (p slowPolicy) Forward(w policy.Work, obs tensor.Dict, mode policy.Mode, noise policy.Noise) (policy.Act, error) {
	_, first := obs.Entry(0)
	time.Sleep(inferenceTime * time.Duration(first.Dim(0)))
	return p.Policy.Forward(w, obs, mode, noise)
}

func withSlowPolicy(r *policy.Registry) {
	r.Add("slow_policy", func(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy,
		error) {
		pol, err := policy.NewMLP(cfg, spec, seed, alloc)
		return slowPolicy{pol}, err
	})
}

// rollouts runs n rollouts of 64 environments, disaggregated, with one or two stages, and returns how long they took
// without training and what was done when. All environments together take 2 ms for a step, and 2 ms for actions; a
// stage takes its share.
func rollouts(t testing.TB, stages int, n int) (took time.Duration, simulate, infer []member.Span) {
	var mu sync.Mutex
	onRanks(t, 4, "../../configs/cartpole_disaggregated.yaml", []string{
		fmt.Sprintf("rollout.pipeline_stage_num=%d", stages),
		fmt.Sprintf("env.train.step_delay=%v", 2*time.Millisecond/time.Duration(stages)),
		"env.train.max_steps_per_rollout_epoch=32",
		"cluster.tracer.enable=true", "actor.model.model_type=slow_policy", "runner.val_check_interval=-1",
	}, func(ctx context.Context, r *EmbodiedRunner) error {
		for range n {
			if err := r.iterate(ctx); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		took = max(took, time.Duration(r.loop.Report().Times[loop.GenerateRollouts]*float64(time.Second)))
		for _, w := range r.Env.Here() {
			simulate = append(simulate, w.Tracer().Spans...)
		}
		for _, w := range r.Rollout.Here() {
			infer = append(infer, w.Tracer().Spans...)
		}
		return nil
	})
	return took, simulate, infer
}

// both returns for how long spans of a and b, each ascending and apart, run at the same time.
func both(a, b []member.Span) (d time.Duration) {
	for len(a) > 0 && len(b) > 0 {
		from, to := a[0].Start, a[0].End
		if b[0].Start.After(from) {
			from = b[0].Start
		}
		if b[0].End.Before(to) {
			to = b[0].End
		}
		d += max(0, to.Sub(from))
		if a[0].End.Before(b[0].End) {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return d
}

// TestPipeline: with one stage simulation and inference take turns; with two they go on side by side.
func TestPipeline(t *testing.T) {
	_, simulate, infer := rollouts(t, 1, 1)
	if d := both(simulate, infer); len(simulate) != 32 || len(infer) != 32 || d != 0 {
		t.Errorf("one stage: %d steps, %d inferences, side by side for %v, want 32, 32, 0", len(simulate), len(infer),
			d)
	}
	_, simulate, infer = rollouts(t, 2, 1)
	if d := both(simulate, infer); len(simulate) != 64 || len(infer) != 64 || d == 0 {
		t.Errorf("two stages: %d steps, %d inferences, side by side for %v, want 64, 64, > 0", len(simulate),
			len(infer), d)
	}
}

// BenchmarkPipeline reports how many times the environment steps per second of one stage two stages give.
func BenchmarkPipeline(b *testing.B) {
	for b.Loop() {
		one, _, _ := rollouts(b, 1, 4)
		two, _, _ := rollouts(b, 2, 4)
		b.ReportMetric(one.Seconds()/two.Seconds(), "speedup")
	}
}
