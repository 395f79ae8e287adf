package embodied

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// onRanks launches the job of a configuration on np goroutine ranks and runs f on each.
func onRanks(t testing.TB, np int, path string, overrides []string,
	f func(ctx context.Context, r *EmbodiedRunner) error) {
	t.Helper()
	reg := rolestest.Registries()
	withSlowPolicy(reg.Policies)
	onRanksOf(t, reg, np, path, overrides, f)
}

// onRanksOf is onRanks with the environments, policies and algorithms of reg.
func onRanksOf(t testing.TB, reg config.Registries, np int, path string, overrides []string,
	f func(ctx context.Context, r *EmbodiedRunner) error) {
	t.Helper()
	onCounted(t, reg, np, path, overrides, nil, f)
}

// onCounted is onRanksOf, and workers report their progress to count. With cluster.tracer.enable, the run's folder has
// the recorded times afterwards.
func onCounted(t testing.TB, reg config.Registries, np int, path string, overrides []string,
	count func(string, int) func(string, int, int), f func(ctx context.Context, r *EmbodiedRunner) error) {
	t.Helper()
	onTransports(t, reg, local.New(np), path, overrides, count, f)
}

// onTransports is onCounted on the ranks of these transports.
func onTransports(t testing.TB, reg config.Registries, on []spmd.Transport, path string, overrides []string,
	count func(string, int) func(string, int, int), f func(ctx context.Context, r *EmbodiedRunner) error) {
	t.Helper()
	np := len(on)
	err := spmd.Run(context.Background(), on, spmd.Options{Log: t.Output()},
		func(ctx context.Context, w *spmd.World) error {
			cfg, _, err := config.Load(reg, path, overrides, false) // each rank has its own
			if err != nil {
				return err
			}
			p, err := Task{}.Draft(cfg, reg, w.Nodes()).Complete(cfg, reg)
			if err != nil {
				return err
			}
			own := loop.NewHoldings(w)
			shared, err := p.Open(w, own)
			if err != nil {
				return err
			}
			group, err := allRanks(w)
			if err != nil {
				return err
			}
			var log *trace.Log
			if cfg.Cluster.Tracer.Enable {
				log = trace.NewLog(trace.Options{Run: cfg.Folder(), Rank: w.Rank(), Ranks: np, All: true})
				loop.Record(w, log)
				defer func() {
					test.Check(t, log.Flush(true))
				}()
			}
			c, err := loop.NewCluster(ctx, w, &p.JobPlan, shared,
				loop.Services{Saver: loop.NewCheckpointSaver(group, nil, nil), Requests: new(loop.Requests),
					Count: count,
					Trace: log, Holdings: own})
			if err != nil {
				return err
			}
			r, err := launchRunner(ctx, c)
			if err != nil {
				return err
			}
			if err := r.InitWorkers(ctx); err != nil {
				return err
			}
			if err := f(ctx, r); err != nil {
				return err
			}
			shared.Close()
			return nil
		})
	test.OK(t, err)
}

// allRanks returns a group of all ranks of w.
func allRanks(w *spmd.World) (*collectives.Group, error) {
	ranks := make([]int, w.Size())
	for r := range ranks {
		ranks[r] = r
	}
	ends, err := w.NewComm(ranks, "state")
	if err != nil {
		return nil, err
	}
	return collectives.New(w, ends[0], collectives.Options{})
}

// launchRunner returns the runner of all groups that have a place.
func launchRunner(ctx context.Context, c *loop.Cluster) (*EmbodiedRunner, error) {
	g, err := LaunchEmbodied(ctx, c)
	if err != nil {
		return nil, err
	}
	return NewEmbodiedRunner(c, g)
}

// TestAllocations counts the allocations of iterations, over all ranks. There is none per environment step, also in
// channels, and a few per iteration and rank. Iterations of two lengths tell allocations per step from allocations per
// iteration.
func TestAllocations(t *testing.T) {
	cases := []struct {
		name   string
		np     int
		config string
		hidden string
	}{
		{"one rank", 1, "../../configs/cartpole_one_rank.yaml", "[64,64]"},
		{"recorded", 1, "../../configs/cartpole_one_rank.yaml",
			"[64,64] env.train.data_collection.enabled=true env.train.data_collection.save_dir=" + t.TempDir()},
		{"labels of an expert", 1, "../../configs/pendulum_dagger.yaml", "[64,64]"},
		{"disaggregated", 4, "../../configs/cartpole_disaggregated.yaml", "[64,64]"},
		{"disaggregated, wide", 4, "../../configs/cartpole_disaggregated.yaml", "[256,256]"},
	}
	if testing.Short() {
		cases = cases[3:4]
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			perIteration := func(steps string) float64 {
				overrides := strings.Fields("actor.model.hidden_sizes=" + c.hidden)
				return mallocsPerIteration(t, c.np, c.config, append(overrides,
					"env.train.max_steps_per_rollout_epoch="+steps, "env.train.total_num_envs=8",
					"algorithm.update_epoch=1", "actor.global_batch_size=64", "actor.micro_batch_size=32")...)
			}
			few, many := perIteration("16"), perIteration("2512") // 2512 is 16 + 2496
			// the Go runtime and the race detector also allocate now and then
			if perStep := (many - few) / 2496; perStep > 0.05 {
				t.Errorf("%.4f allocations per step of %d ranks, want 0 (%.0f in iterations of 16 steps, %.0f of 2512)",
					perStep, c.np, few, many)
			}
			if few > 200*float64(c.np) {
				t.Errorf("%.0f allocations per iteration on %d ranks, want at most 200 each", few, c.np)
			}
			t.Logf("%.0f allocations per iteration of 16 steps, %.0f of 2512, on %d ranks", few, many, c.np)
		})
	}
}

func mallocsPerIteration(t *testing.T, np int, config string, overrides ...string) float64 {
	const warm, counted = 3, 4
	var before, after runtime.MemStats
	var at [2]atomic.Int32 // ranks that have reached the start and the end
	onRanks(t, np, config, overrides, func(ctx context.Context, r *EmbodiedRunner) error {
		for i := range warm + counted {
			if i == warm && at[0].Add(1) == int32(np) {
				runtime.ReadMemStats(&before)
			}
			if err := r.iterate(ctx); err != nil {
				return err
			}
			rep := r.loop.Report() // the loop does the same
			rep.Episodes, rep.Evals = rep.Episodes[:0], rep.Evals[:0]
			leader{r}.Describe(rep)
		}
		if at[1].Add(1) == int32(np) {
			runtime.ReadMemStats(&after)
		}
		return nil
	})
	return float64(after.Mallocs-before.Mallocs) / counted
}
