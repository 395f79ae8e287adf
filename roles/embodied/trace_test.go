package embodied

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/trace"
	"github.com/rlinf/rlinf/roles/loop"
)

// recorded returns overrides that record all workers, and a function that returns the record after the ranks have
// ended.
func recorded(t testing.TB) (overrides []string, read func() trace.Attempt) {
	dir := t.TempDir()
	return []string{"cluster.tracer.enable=true", "runner.logger.log_path=" + filepath.Dir(dir),
			"runner.logger.experiment_name=" + filepath.Base(dir)}, func() trace.Attempt {
			t.Helper()
			tr, err := trace.Read(dir)
			if err != nil || len(tr.Problems) > 0 || len(tr.Attempts) != 1 || len(tr.Attempts[0].Windows) == 0 {
				t.Fatalf("%v, problems %q, %d attempts", err, tr.Problems, len(tr.Attempts))
			}
			return tr.Attempts[0]
		}
}

// TestTraceHasAllWorkers: the trace has spans of work of every component's workers. Work and waits cover the whole
// time, and each wait has a cause.
func TestTraceHasAllWorkers(t *testing.T) {
	for _, c := range []struct {
		components string
		np         int
		more, want []string
	}{
		{"actor,env,rollout: 0; reward: 1", 2, potential, []string{
			"play work of rollout 0", "score work of reward 0", "train work of actor 0",
			"transitions reward of reward 0", "rewards reward of rollout 0", "out trajectory of actor 0"}},
		{"env: 0; rollout: 1; inference: 2; actor: 3", 4, []string{"algorithm.recompute_logprobs=true"}, []string{
			"infer work of inference 0", "infer work of rollout 0", "simulate work of env 0", "train work of actor 0",
			"obs observation of rollout 0", "act action of env 0", "out trajectory of inference 0",
			"batches trajectory of actor 0", "weights weights of rollout 0", "weights weights of actor 0"}},
	} {
		overrides, read := recorded(t)
		onRanks(t, c.np, placed(t, "../../configs/cartpole_ppo.yaml", c.components),
			slices.Concat(small, c.more, overrides), func(ctx context.Context, r *EmbodiedRunner) error {
				return r.iterate(ctx)
			})
		a := read()
		seen := map[string]bool{}
		for _, track := range a.Windows[0].Tracks {
			w := a.Workers[track.Worker]
			at := track.Spans[0].Start
			for _, s := range track.Spans {
				site := w.Sites[s.Site]
				seen[fmt.Sprintf("%s %s of %s %d", site.Name, site.Cause, w.Component, w.Member)] = true
				if s.Start != at {
					t.Errorf("%s %d: a gap at %d", w.Component, w.Member, s.Start)
				}
				at = s.End
			}
		}
		for _, want := range c.want {
			if !seen[want] {
				t.Errorf("%s: no %s in %q", c.components, want, slices.Sorted(maps.Keys(seen)))
			}
		}
	}
}

// TestPlayIsDivided: the record divides the time of a rollout worker that steps environments itself into the
// simulator's, the policy's and the rest. The three add to the spans of play.
func TestPlayIsDivided(t *testing.T) {
	overrides, read := recorded(t)
	onRanks(t, 1, "../../configs/cartpole_one_rank.yaml", slices.Concat(small, overrides),
		func(ctx context.Context, r *EmbodiedRunner) error { return r.iterate(ctx) })
	a, spans := read(), int64(0)
	parts := map[string]int64{}
	for _, s := range a.Sums {
		for i, ns := range s.Times {
			if site := a.Workers[s.Worker].Sites[i]; site.Key == "play" || site.Name == "play" {
				parts[site.Name] += ns
			}
		}
	}
	for _, w := range a.Windows {
		for _, track := range w.Tracks {
			for _, s := range track.Spans {
				if a.Workers[track.Worker].Sites[s.Site].Name == "play" {
					spans += s.End - s.Start
				}
			}
		}
	}
	simulate, infer, rest := parts["simulate"], parts["infer"], parts["play"]
	if simulate <= 0 || infer <= 0 || rest <= 0 || simulate+infer+rest != spans {
		t.Errorf("play took %d ns: %v", spans, parts)
	}
}

// TestEdges: every received item was put into the channel before.
func TestEdges(t *testing.T) {
	overrides, read := recorded(t)
	onRanks(t, 4, "../../configs/cartpole_disaggregated.yaml", slices.Concat(small, overrides),
		func(ctx context.Context, r *EmbodiedRunner) error { return r.iterate(ctx) })
	a := read()
	type item struct {
		channel, key string
		producer     int64
		n            int64
	}
	put := map[item]int64{}
	for _, track := range a.Windows[0].Tracks {
		w := a.Workers[track.Worker]
		for _, m := range track.Marks {
			put[item{w.Sites[m.Site].Name, w.Sites[m.Site].Key, int64(w.Member), m.N}] = m.At
		}
	}
	gets := map[string]int{}
	for _, track := range a.Windows[0].Tracks {
		w := a.Workers[track.Worker]
		for _, s := range track.Spans {
			site := w.Sites[s.Site]
			if site.Op != trace.Get {
				continue
			}
			at, ok := put[item{site.Name, site.Key, s.Arg, s.Item}]
			if !ok || at > s.End && s.End > s.Start {
				t.Errorf("%s %s: item %d of %d was got until %d, put at %d (%v)", site.Name, site.Key, s.Item, s.Arg,
					s.End, at, ok)
			}
			gets[site.Name]++
		}
	}
	if gets["obs"] == 0 || gets["act"] == 0 || gets["out"] == 0 {
		t.Errorf("items got: %v", gets)
	}
}

// BenchmarkRecording reports the share of an iteration that recording takes on the busiest worker: the number of its
// span boundaries times the cost of a boundary. BenchmarkBoundary of internal/trace measures this cost in a loop, and
// this benchmark measures it again.
func BenchmarkRecording(b *testing.B) {
	log := trace.NewLog(trace.Options{Run: b.TempDir(), Ranks: 1})
	rec := log.Recorder("env", 0)
	site := rec.Site(trace.Site{Op: trace.Work, Name: "simulate"})
	const boundaries = 1 << 20
	start := time.Now()
	for i := range boundaries / 2 {
		if i%blockOfEvents == 0 {
			log.Cut(1)
		}
		rec.Begin(site)
		rec.End(0, 0)
	}
	cost := float64(time.Since(start).Nanoseconds()) / boundaries
	for _, c := range []struct {
		name, config string
		np           int
	}{{"one rank", "cartpole_one_rank", 1}, {"disaggregated", "cartpole_disaggregated", 4}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				overrides, read := recorded(b)
				overrides = append(overrides, "runner.val_check_interval=-1")
				onRanks(b, c.np, "../../configs/"+c.config+".yaml", overrides, tenIterations)
				most, lasted := 0, int64(1)
				for _, track := range read().Windows[0].Tracks {
					most = max(most, len(track.Spans)+len(track.Marks))
					lasted = max(lasted, track.Spans[len(track.Spans)-1].End-track.Spans[0].Start)
				}
				b.ReportMetric(float64(most)/10, "boundaries/iteration")
				b.ReportMetric(cost, "ns/boundary")
				b.ReportMetric(100*float64(most)*cost/float64(lasted), "%")
			}
		})
	}
}

const blockOfEvents = 4096

func tenIterations(ctx context.Context, r *EmbodiedRunner) error {
	for range 10 {
		if err := r.iterate(ctx); err != nil {
			return err
		}
	}
	return nil
}

// TestSimulatedTime: a report has the time of the environments, with rollouts one after the other and in advance.
func TestSimulatedTime(t *testing.T) {
	const iterations, steps, delay = 3, 8, 2 * time.Millisecond
	for _, mode := range [][]string{
		{"runner.async=false"},
		{"runner.async=true", "algorithm.staleness_threshold=1", "algorithm.loss_type=decoupled_actor_critic"},
	} {
		onRanks(t, 2, "../../configs/cartpole_disaggregated.yaml",
			asyncArgs([]string{"0", "1", "1", "1"}, append(mode, "env.train.step_delay="+delay.String())...),
			func(ctx context.Context, r *EmbodiedRunner) error {
				spent, rep := 0.0, loop.RankReport{}
				for range iterations {
					if err := r.iterate(ctx); err != nil {
						return err
					}
					leader{r}.Describe(&rep)
					spent += rep.Simulated[0]
				}
				if least := (iterations * steps * delay).Seconds(); len(r.Env.Here()) > 0 && spent < least {
					t.Errorf("%s: %v s in simulators, want %v or more", mode[0], spent, least)
				} else if len(r.Env.Here()) == 0 && spent != 0 {
					t.Errorf("%s: %v s in simulators of another rank", mode[0], spent)
				}
				return r.quiesce(ctx)
			})
	}
}
