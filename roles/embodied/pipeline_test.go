package embodied

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/tensor"
)

// A slowPolicy takes 2 ms to choose actions for 64 environments, as a large network would. Meanwhile its core is idle.
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

// rollouts runs n rollouts of 64 environments, with env and rollout workers on different ranks, and with one or two
// stages. It returns the time of the rollouts without training, and the spans of work. A step of all environments takes
// 2 ms, and so do their actions. A stage takes its share of this time.
func rollouts(t testing.TB, stages int, n int) (took time.Duration, simulate, infer []trace.Span) {
	var mu sync.Mutex
	overrides, read := recorded(t)
	onRanks(t, 4, "../../configs/cartpole_disaggregated.yaml", append(overrides,
		fmt.Sprintf("rollout.pipeline_stage_num=%d", stages),
		fmt.Sprintf("env.train.step_delay=%v", 2*time.Millisecond/time.Duration(stages)),
		"env.train.max_steps_per_rollout_epoch=32",
		"actor.model.model_type=slow_policy", "runner.val_check_interval=-1",
	), func(ctx context.Context, r *EmbodiedRunner) error {
		for range n {
			if err := r.iterate(ctx); err != nil {
				return err
			}
		}
		mu.Lock()
		defer mu.Unlock()
		took = max(took, time.Duration(r.loop.Report().Times[loop.GenerateRollouts]*float64(time.Second)))
		return nil
	})
	a := read()
	for _, track := range a.Windows[0].Tracks {
		for _, s := range track.Spans {
			switch a.Workers[track.Worker].Sites[s.Site].Name {
			case "simulate":
				simulate = append(simulate, s)
			case "infer":
				infer = append(infer, s)
			}
		}
	}
	return took, simulate, infer
}

// both returns how long spans of a and of b run at the same time. The spans of each are ascending and do not overlap.
func both(a, b []trace.Span) (d time.Duration) {
	for len(a) > 0 && len(b) > 0 {
		d += time.Duration(max(0, min(a[0].End, b[0].End)-max(a[0].Start, b[0].Start)))
		if a[0].End < b[0].End {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return d
}

// TestPipeline: with one stage, simulation and inference take turns. With two stages they run at the same time. The
// values of a stage's last observations need one more inference.
func TestPipeline(t *testing.T) {
	_, simulate, infer := rollouts(t, 1, 1)
	if d := both(simulate, infer); len(simulate) != 32 || len(infer) != 33 || d != 0 {
		t.Errorf("one stage: %d steps, %d inferences, side by side for %v, want 32, 33, 0", len(simulate), len(infer),
			d)
	}
	_, simulate, infer = rollouts(t, 2, 1)
	if d := both(simulate, infer); len(simulate) != 64 || len(infer) != 66 || d == 0 {
		t.Errorf("two stages: %d steps, %d inferences, side by side for %v, want 64, 66, > 0", len(simulate),
			len(infer), d)
	}
}

// BenchmarkPipeline reports the speed of two stages, in environment steps per second, as a multiple of the speed of one
// stage.
func BenchmarkPipeline(b *testing.B) {
	for b.Loop() {
		one, _, _ := rollouts(b, 1, 4)
		two, _, _ := rollouts(b, 2, 4)
		b.ReportMetric(one.Seconds()/two.Seconds(), "speedup")
	}
}
