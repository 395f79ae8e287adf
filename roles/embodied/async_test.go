package embodied

import (
	"bytes"
	"context"
	"slices"
	"sync"
	"testing"
)

// places are placements of actors, env and rollout workers, each with a number of stages.
var places = []struct {
	name  string
	np    int
	place []string
}{
	{"one rank", 1, []string{"0", "0", "0", "1"}},
	{"one rank, stages", 1, []string{"0", "0", "0", "2"}},
	{"one rank, four workers", 1, []string{"0", "'0:0-3'", "'0:0-3'", "1"}},
	{"collocated", 2, []string{"0-1", "0-1", "0-1", "1"}},
	{"disaggregated", 4, []string{"0-1", "2", "3", "2"}},
	{"one rollout worker for all", 6, []string{"0-1", "1-4", "5", "2"}},
}

// asyncArgs are the arguments of a small asynchronous run, in a placement.
func asyncArgs(place []string, more ...string) []string {
	return append([]string{
		"runner.async=true", "cluster.component_placement={actor: " + place[0] + ", env: " + place[1] + ", rollout: " +
			place[2] + "}",
		"rollout.pipeline_stage_num=" + place[3], "env.train.total_num_envs=16",
		"env.train.max_steps_per_rollout_epoch=8",
		"actor.global_batch_size=32", "actor.micro_batch_size=8", "algorithm.update_epoch=2",
		"runner.val_check_interval=3", "runner.save_interval=-1", "env.eval.total_num_envs=16",
	}, more...)
}

// No rollout is older than the bound, and none is dropped. If the simulator is fast enough, every rollout has the
// largest allowed age.
func TestStalenessIsBounded(t *testing.T) {
	for _, p := range places {
		for _, bound := range []struct{ threshold, interval string }{{"0", "1"}, {"1", "1"}, {"3", "2"}} {
			t.Run(p.name+", "+bound.threshold, func(t *testing.T) {
				onRanks(t, p.np, "../../configs/cartpole_disaggregated.yaml",
					asyncArgs(p.place, "algorithm.loss_type=decoupled_actor_critic",
						"algorithm.staleness_threshold="+bound.threshold, "runner.weight_sync_interval="+bound.interval,
					), func(ctx context.Context, r *EmbodiedRunner) error {
						for range 10 {
							if err := r.iterate(ctx); err != nil {
								return err
							}
							for _, a := range r.Actor.Here() {
								x := a.Arrivals()
								if want := float64(r.plan.Train.Envs / r.plan.Actors); x.Taken != want ||
									x.Dropped != 0 || x.Oldest > float64(r.plan.Config.Algorithm.StalenessThreshold) {
									t.Errorf("iteration %d: %+v, want %v taken", r.loop.GlobalStep(), *x, want)
								}
							}
						}
						return r.quiesce(ctx)
					})
			})
		}
	}
}

// With a bound of 0 rollouts are never made ahead, so an asynchronous run has the bits of the synchronous run.
func TestBoundOfZeroIsSynchronous(t *testing.T) {
	train := func(place []string, np int, args ...string) (params []float32) {
		var mu sync.Mutex
		onRanks(t, np, "../../configs/cartpole_disaggregated.yaml", asyncArgs(place, args...),
			func(ctx context.Context, r *EmbodiedRunner) error {
				for range 7 {
					if err := r.iterate(ctx); err != nil {
						return err
					}
				}
				mu.Lock()
				for _, a := range r.Actor.Here() {
					params = slices.Clone(a.Policy().Params().Data)
				}
				mu.Unlock()
				return r.quiesce(ctx)
			})
		return params
	}
	for _, p := range places[:2] {
		want := train(p.place, p.np, "runner.async=false")
		for _, loss := range []string{"actor_critic", "decoupled_actor_critic"} {
			if got := train(p.place, p.np, "algorithm.staleness_threshold=0",
				"algorithm.loss_type="+loss); !slices.Equal(got, want) {
				t.Errorf("%s, %s: other parameters than the synchronous run's", p.name, loss)
			}
		}
	}
}

// TestAsyncTransitionsFollowOneAnother: a replay buffer gets all steps in order, with or without pauses. Each step
// begins where the step before has ended.
func TestAsyncTransitionsFollowOneAnother(t *testing.T) {
	for _, p := range places {
		t.Run(p.name, func(t *testing.T) {
			onRanks(t, p.np, "../../configs/cartpole_disaggregated.yaml",
				asyncArgs(p.place, "algorithm.adv_type=embodied_dqn", "algorithm.loss_type=embodied_dqn",
					"actor.model.add_q_head=true", "algorithm.replay_buffer.sample_window_size=400",
					"algorithm.replay_buffer.min_buffer_size=2",
					"actor.recv_drain_max_trajectories=5", "env.train.step_delay=200us",
				), func(ctx context.Context, r *EmbodiedRunner) error {
					for range 20 {
						if err := r.iterate(ctx); err != nil {
							return err
						}
						if r.loop.GlobalStep()%4 == 0 { // usually in the middle of a rollout
							if err := r.quiesce(ctx); err != nil {
								return err
							}
						}
					}
					for _, a := range r.Actor.Here() {
						state, err := a.Algorithm().Save()
						if err != nil {
							return err
						}
						obs, next := state.Must("env.replay.observation.state"),
							state.Must("env.replay.next_observation.state")
						envs, steps := obs.Dim(0), obs.Dim(1)
						if want := int(a.Arrivals().Rollouts) * r.plan.Steps; steps != want ||
							a.Arrivals().Rollouts < 20 {
							t.Errorf("%d steps of each environment, want those of %d rollouts, %d", steps,
								a.Arrivals().Rollouts, want)
						}
						for n := range envs {
							terminated, truncated := state.Must("env.replay.terminated").At(n).U8(),
								state.Must("env.replay.truncated").At(n).U8()
							for i := 1; i < steps; i++ {
								if terminated[i-1]|truncated[i-1] == 0 &&
									!bytes.Equal(next.At(n).At(i-1).Bytes(), obs.At(n).At(i).Bytes()) {
									t.Errorf("environment %d of actor %d: step %d does not begin where the one before "+
										"ended", n, a.Index(), i)
								}
							}
						}
					}
					return r.quiesce(ctx)
				})
		})
	}
}
