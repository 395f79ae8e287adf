package policy

import (
	"fmt"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

// benchmarked are the distributions, each on two 64-64 networks and 4 observations.
func benchmarked(b *testing.B, run func(b *testing.B, p *ActorCritic)) {
	for _, c := range []struct {
		name   string
		action env.Space
		sde    bool
	}{{"categorical", discrete, false}, {"gaussian", box, false}, {"sde", box, true}} {
		b.Run(c.name, func(b *testing.B) {
			cfg := DefaultConfig()
			cfg.UseSDE = c.sde
			run(b, newPolicy(b, cfg, env.Spec{Name: "Test-v0", Obs: []env.Field{vector("state", 4)}, Action: c.action}))
		})
	}
}

// BenchmarkForward is the step loop: choose actions for a few environments.
func BenchmarkForward(b *testing.B) {
	benchmarked(b, func(b *testing.B, p *ActorCritic) {
		for _, rows := range []int{1, 4, 64} {
			b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
				obs, noise := observe(p, rows)
				w := p.NewWork(rows)
				b.ReportAllocs()
				for b.Loop() {
					for i := range noise.Step {
						noise.Step[i]++
					}
					test.Must(p.Forward(w, obs, Sample, noise))(b)
				}
			})
		}
	})
}

// BenchmarkLearn is a minibatch of 128: Evaluate and Backward.
func BenchmarkLearn(b *testing.B) {
	benchmarked(b, func(b *testing.B, p *ActorCritic) {
		obs, noise := observe(p, 128)
		w := p.NewWork(128)
		act := must[Act](b)(p.Forward(w, obs, Sample, noise)).clone()
		grad := Grad{LogProb: act.LogProb, Entropy: act.LogProb, Value: act.Value}
		products := 0 // multiply-adds of a row: forward, dW, and dX except for the first layers
		for i, f := range p.Params().Fields {
			if len(f.Shape) == 2 && f.Name != "actor.log_std" {
				products += 3 * len(p.Params().Of(i))
				if f.Name == "actor.0.weight" || f.Name == "critic.0.weight" {
					products -= len(p.Params().Of(i))
				}
			}
		}
		b.ReportAllocs()
		for b.Loop() {
			test.Must(p.Evaluate(w, obs, act.Action))(b)
			test.OK(b, p.Backward(w, grad, nil))
		}
		b.ReportMetric(float64(b.N)*2*128*float64(products)/float64(b.Elapsed().Nanoseconds()), "GFLOP/s")
	})
}
