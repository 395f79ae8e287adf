package member_test

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/nn/kernel"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
	"github.com/rlinf/rlinf/tensor"
)

// BenchmarkDecode generates texts with a model on one rank, and with the same model divided between two ranks, with one
// thread each. speedup is the ratio of the rates. bandwidth is the memory bandwidth of two cores as a multiple of that
// of one core, in the same run.
func BenchmarkDecode(b *testing.B) {
	c := lm.Config{Family: lm.Qwen2, Vocab: 4096, Hidden: 512, Layers: 6, Heads: 8, KVHeads: 4, HeadDim: 64,
		Intermediate: 1408, Eps: 1e-6, Rope: lm.Rope{Theta: 1e4, Type: lm.RopeDefault}, Tied: true} // 79 MB
	large := c // 1.1 GB
	large.Hidden, large.Heads, large.HeadDim, large.Intermediate, large.Layers = 1024, 16, 64, 2816, 24
	small := c // 14 MB
	small.Layers, small.Vocab = 1, 1024
	b.Run("16 sequences in cache", func(b *testing.B) { decode(b, small, 16, 64) })
	b.Run("16 sequences in memory", func(b *testing.B) { decode(b, c, 16, 32) })
	b.Run("1 sequence in memory", func(b *testing.B) { decode(b, large, 1, 16) })
}

func decode(b *testing.B, c lm.Config, sequences, tokens int) {
	requests := make([]engine.Request, sequences)
	for i := range requests {
		requests[i] = engine.Request{Prompt: []int32{int32(i)}, Key: uint64(i), Sampling: engine.Greedy(tokens)}
		requests[i].Sampling.Temperature = 1
	}
	best := map[int]float64{1: math.Inf(1), 2: math.Inf(1)}
	for b.Loop() {
		for _, ranks := range []int{1, 2} {
			best[ranks] = min(best[ranks], generate(b, c, ranks, requests))
		}
	}
	n := float64(sequences * tokens)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(n/best[1], "tokens/s")
	b.ReportMetric(n/best[2], "tokens/s-of-2")
	b.ReportMetric(best[1]/best[2], "speedup")
	b.ReportMetric(bandwidth(2)/bandwidth(1), "bandwidth")
}

// generate returns the shortest time of the requests on ranks that divide a model of c.
func generate(b *testing.B, c lm.Config, ranks int, requests []engine.Request) float64 {
	j := newJob(b)
	spec := spmd.GroupSpec{Name: "rollout", Axes: axes(1, 1, ranks), Comms: []string{member.Layers}}
	for r := range ranks {
		spec.Ranks = append(spec.Ranks, r)
	}
	best := math.Inf(1)
	err := spmd.Run(b.Context(), local.New(ranks), spmd.Options{}, func(ctx context.Context, w *spmd.World) error {
		_, err := spmd.Launch(w, spec, func(m *spmd.Member) (struct{}, error) {
			line, err := member.NewAxisGroup(ctx, m, j, mesh.Tensor)
			if err != nil {
				return struct{}{}, err
			}
			o := lm.Options{Frozen: true, Part: lm.Shard{Index: m.Index(), Size: ranks}}
			model, err := lm.New(new(nn.Params[float32]), c, o)
			if err == nil {
				err = model.Alloc(tensor.Heap)
			}
			if err != nil {
				return struct{}{}, err
			}
			for _, t := range model.Tensors() {
				for i := range t.Data {
					t.Data[i] = 0.01 * float32(i%7-3)
				}
			}
			e, err := engine.New(model, engine.Options{MaxRunning: len(requests), Axis: line})
			for range 4 {
				if err != nil {
					break
				}
				start := time.Now()
				_, err = e.Generate(ctx, requests, engine.Watch{})
				if m.Index() == 0 {
					best = min(best, time.Since(start).Seconds())
				}
			}
			return struct{}{}, err
		})
		return err
	})
	test.OK(b, err)
	return best
}

// bandwidth returns the rate at which cores read memory, in bytes per second.
func bandwidth(cores int) float64 {
	const n = 64 << 20 // elements of all cores, 256 MiB
	memory, best := nn.Vector[float32](n), math.Inf(1)
	for i := range memory {
		memory[i] = 1
	}
	for range 5 {
		start := time.Now()
		var all sync.WaitGroup
		for core := range cores {
			all.Go(func() {
				var sum [64]float32
				part := memory[core*n/cores : (core+1)*n/cores]
				kernel.ColSum(sum[:], part, len(part)/64, 64, false)
			})
		}
		all.Wait()
		best = min(best, time.Since(start).Seconds())
	}
	return 4 * n / best
}
