package e2e

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A placement has the size of the world, and the sections of the configuration that place components, for a number of
// actors.
type placement struct {
	name  string
	place func(actors int) (np int, yaml string)
}

// placements are all the ways to place a job on its ranks. 48 environments divide evenly in each.
var placements = []placement{
	{"one rank", func(a int) (int, string) {
		return 1, components("actor: '0:0-%d'", a-1) + "    env: 0\n    rollout: 0\n"
	}},
	{"collocated, joined keys", func(a int) (int, string) {
		return a, components("actor,env,rollout: 0-%d", a-1)
	}},
	{"disaggregated", func(a int) (int, string) {
		return a + 2, components("actor: 0-%d", a-1) + fmt.Sprintf("    env: %d\n    rollout: %d\n", a, a+1)
	}},
	{"hybrid", func(a int) (int, string) {
		return 4, components("actor: 0-%d", a-1) + "    env: 0-1\n    rollout: 2-3\n"
	}},
	{"hybrid, actors last", func(a int) (int, string) {
		return 4, components("actor: %d-3", 4-a) + "    env: 1-3\n    rollout: 0-1\n"
	}},
	{"uneven workers on two ranks", func(a int) (int, string) {
		return 2, components("actor: '%s'", []string{"1", "0-1", "0:0-1,1:2"}[a-1]) +
			"    env: '0:0-1,1:2'\n    rollout: '0:0,1:1-2'\n"
	}},
	{"many workers on a rank each", func(a int) (int, string) {
		return 3, components("actor: '2:0-%d'", a-1) + "    env: '0:0-3'\n    rollout: '1:0-1'\n"
	}},
	{"two workers on each of two ranks", func(a int) (int, string) {
		return max(2, a), components("actor: 0-%d", a-1) + "    env: '0-1:0-3'\n    rollout: '0,1'\n"
	}},
	{"idle ranks, rank 0 too", func(a int) (int, string) {
		return a + 6,
			components("actor: 1-%d", a) + fmt.Sprintf("    env: %d\n    rollout: %d\n  allow_idle_ranks: true\n", a+2,
				a+4)
	}},
	{"virtual nodes, a component on nodes", func(a int) (int, string) {
		return 4,
			components("actor: 0-%d", a-1) +
				"    env: {node_group: node, placement: 0-1}\n    rollout: 1-3\n  num_nodes: 2\nspmd: {nodes: 2}\n"
	}},
	{"node groups, small buckets", func(a int) (int, string) {
		return 4,
			components("actor: 0-%d", a-1) +
				"    env: {node_group: sim, placement: 0-1}\n    rollout: {node_group: 'learn,sim', placement: 1-2}\n" +
				"  node_groups: [{label: sim, node_ranks: 2-3}, {label: learn, node_ranks: 0-1}]\nspmd: {nodes: " +
				"4}\ncomm: {bucket_bytes: 1024}\n"
	}},
	{"all ranks simulate and infer", func(a int) (int, string) {
		return 3, components("actor: 0-%d", a-1) + "    env,rollout: all\n"
	}},
}

// components begins the section cluster with the placement of components.
func components(format string, args ...any) string {
	return "cluster:\n  component_placement:\n    " + fmt.Sprintf(format, args...) + "\n"
}

// A task is the rest of the configuration: what to learn.
type task struct {
	name      string
	steps     int // of each environment in an iteration
	autoReset bool
	yaml      string
}

// The tasks: discrete actions with auto-reset and a time limit; groups of environments that wait for each other, with a
// trunk for both heads; continuous actions with exploration that depends on the state, and running statistics of
// observations and returns; episodes that are compared, with a penalty for the distance from the first policy; a replay
// buffer that is full in the third iteration; and a recurrent policy for a hidden state. In each iteration some
// episodes end, and others go on.
var tasks = []task{
	{"CartPole", 16, true, `
env: {train: {env_type: CartPole-v1, total_num_envs: 48, max_episode_steps: 12}, eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 12}}
algorithm: {gamma: 0.99, gae_lambda: 0.95, update_epoch: 2, normalize_advantages: minibatch, entropy_bonus: 0.01}
actor: {micro_batch_size: 32, global_batch_size: 384, model: {hidden_sizes: [64, 64]}, optim: {lr: 3.0e-3}}
`},
	{"CartPole in groups, without auto_reset", 40, false, `
env: {train: {env_type: CartPole-v1, total_num_envs: 48, auto_reset: false}, eval: {total_num_envs: 24, max_steps_per_rollout_epoch: 40, max_episode_steps: 40}}
algorithm: {group_size: 2, gamma: 0.99, gae_lambda: 0.95, update_epoch: 2, normalize_advantages: batch}
actor: {micro_batch_size: 32, global_batch_size: 384, model: {hidden_sizes: [48], share_trunk: true}, optim: {lr: 3.0e-3}}
`},
	{"Pendulum", 16, true, `
env: {train: {env_type: Pendulum-v1, total_num_envs: 48, max_episode_steps: 10}, eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 30, max_episode_steps: 30}}
algorithm: {gamma: 0.95, gae_lambda: 0.9, update_epoch: 3, normalize_rewards: true, target_kl: 0.02, value_clip: 0.2}
actor:
  micro_batch_size: 64
  global_batch_size: 384
  model: {hidden_sizes: [32, 32], use_sde: true, sde_sample_freq: 4, init_log_std: -1, normalize_observations: true}
  optim: {lr: 3.0e-3}
`},
	{"CartPole by GRPO", 40, false, `
env: {train: {env_type: CartPole-v1, total_num_envs: 48, auto_reset: false}, eval: {group_size: 1, total_num_envs: 12, max_steps_per_rollout_epoch: 40, max_episode_steps: 40}}
algorithm: {adv_type: grpo, loss_type: actor, group_size: 2, update_epoch: 2, kl_beta: 0.1, loss_agg_func: seq-mean-token-mean}
actor: {micro_batch_size: 32, global_batch_size: 384, model: {hidden_sizes: [48], add_value_head: false}, optim: {lr: 3.0e-3}}
`},
	{"Pendulum by SAC", 16, true, `
env: {train: {env_type: Pendulum-v1, total_num_envs: 48, max_episode_steps: 10}, eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 30, max_episode_steps: 30}}
algorithm:
  {adv_type: embodied_sac, loss_type: embodied_sac, gamma: 0.95, update_epoch: 2, n_step: 2, replay_buffer: {sample_window_size: 3, min_buffer_size: 2}}
actor:
  micro_batch_size: 64
  global_batch_size: 384
  model: {hidden_sizes: [32, 32], add_q_head: true}
  optim: {lr: 3.0e-3}
`},
	{"CartPole by what was remembered", 16, true, `
env: {train: {env_type: CartPole-v1, total_num_envs: 48, max_episode_steps: 12, state_elements: [0, 2]}, eval: {total_num_envs: 12, max_steps_per_rollout_epoch: 12}}
algorithm: {gamma: 0.99, gae_lambda: 0.95, update_epoch: 2, sequence_length: 8}
actor:
  micro_batch_size: 32
  global_batch_size: 384
  model: {model_type: rnn_policy, share_trunk: true, hidden_sizes: [16], rnn_hidden_size: 16, normalize_observations: true}
  optim: {lr: 3.0e-3}
`},
}

// A variant of a job is one of the ways to run it.
type variant struct {
	on                           *platform
	place, task                  int // indices of placements and tasks
	actors, stages, epochs, sync int
}

func (v variant) String() string {
	return fmt.Sprintf("%s/%s/%s/actors %d, stages %d, epochs %d, sync %d", v.on.name, placements[v.place].name,
		tasks[v.task].name, v.actors, v.stages, v.epochs, v.sync)
}

// run runs the job for four iterations, one more than the longest time between two versions of the weights. It returns
// the metrics.
func (v variant) run(t testing.TB, more ...string) metrics {
	t.Helper()
	dir := t.TempDir()
	np, cluster := placements[v.place].place(v.actors)
	v.on.ok(t, dir, np, append([]string{"-c", writeFile(t, dir, "job.yaml", cluster+tasks[v.task].yaml),
		"runner.max_steps=4", "runner.val_check_interval=2", fmt.Sprint("runner.weight_sync_interval=", v.sync),
		fmt.Sprint("rollout.pipeline_stage_num=", v.stages), fmt.Sprint("env.train.rollout_epoch=", v.epochs),
		fmt.Sprint("env.train.max_steps_per_rollout_epoch=", tasks[v.task].steps/v.epochs),
		"runner.logger.experiment_name=run", "runner.logger.logger_backends=[]"}, more...)...)
	return readMetrics(t, filepath.Join(dir, "logs", "run"))
}

// likeness returns the simplest variant whose metrics must be the same: one rank and one stage. With auto-reset two
// rollouts for an update are equal to one that is twice as long.
func (v variant) likeness() variant {
	like := variant{on: local, task: v.task, actors: v.actors, stages: 1, epochs: 1, sync: v.sync}
	if !tasks[v.task].autoReset {
		like.epochs = v.epochs
	}
	return like
}

// references are the metrics of the simplest variants. Each of these runs once, beside the others.
type references struct{ of sync.Map } // by variant: func(testing.TB) metrics

func (r *references) get(t testing.TB, v variant) metrics {
	t.Helper()
	var once sync.Mutex
	var m metrics
	run, _ := r.of.LoadOrStore(v, func(t testing.TB) metrics {
		once.Lock()
		defer once.Unlock()
		if m == nil {
			m = v.run(t)
		}
		return m
	})
	return run.(func(testing.TB) metrics)(t)
}

// TestSameNumbersEverywhere: the metrics of a job follow from its configuration and the number of its actors, to the
// last bit. They depend neither on the placement nor on the transport.
func TestSameNumbersEverywhere(t *testing.T) {
	t.Parallel()
	variants := sample()
	if full {
		variants = everything()
	}
	checkCover(t, variants)
	var refs references
	for _, v := range variants {
		t.Run(v.String(), func(t *testing.T) {
			t.Parallel()
			v.on.program(t, ".") // or skip the test
			want := refs.get(t, v.likeness())
			want.checkWhole(t, 4)
			v.run(t).same(t, want, "not the metrics of %v", v.likeness())
		})
	}
}

// dagger are the overrides that turn a task for SAC into one for DAgger.
var dagger = []string{"algorithm.adv_type=embodied_dagger", "algorithm.loss_type=embodied_dagger",
	"algorithm.dagger.beta_decay=0.5"}

// TestSameLabelsEverywhere: the labels of experts, and the steps at which experts act, are the same in one goroutine,
// over channels and in stages.
func TestSameLabelsEverywhere(t *testing.T) {
	t.Parallel()
	task := slices.IndexFunc(tasks, func(t task) bool { return strings.HasSuffix(t.name, "SAC") })
	plain := variant{on: local, task: task, actors: 2, stages: 1, epochs: 1, sync: 1}
	want := plain.run(t, dagger...)
	want.checkWhole(t, 4)
	for _, v := range []variant{
		{on: local, place: 2, task: task, actors: 2, stages: 2, epochs: 1, sync: 1},
		{on: local, place: 5, task: task, actors: 2, stages: 1, epochs: 2, sync: 1},
	} {
		v.run(t, dagger...).same(t, want, "%v: not the metrics of %v", v, plain)
	}
}

// sample is every placement on goroutine ranks with each task, and some variants on one of the MPIs.
func sample() (vs []variant) {
	for i := range placements {
		for k := range tasks {
			vs = append(vs, variant{local, i, k, 1 + (i+k)%3, 1 + (i/3+k)%2, 1 + (i/2+k/2)%2, 1 + 2*((i/6+(k+1)/2)%2)})
		}
		mpi := []*platform{openmpi, mpich}[i%2]
		vs = append(vs, variant{mpi, i, i / 2 % len(tasks), 3 - i/4, 1 + i/2%2, 1 + i/3%2, 1 + 2*(i/4%2)})
	}
	return vs
}

// everything is all variants on goroutine ranks. With each MPI it is all variants, but with one task in turn for each.
func everything() (vs []variant) {
	for _, on := range platforms {
		for i := range placements {
			for a := 1; a <= 3; a++ {
				for k := range 8 {
					for task := range tasks {
						if on == local || task == (i+a+k)%len(tasks) {
							vs = append(vs, variant{on, i, task, a, 1 + k%2, 1 + k/2%2, 1 + 2*(k/4)})
						}
					}
				}
			}
		}
	}
	return vs
}

// checkCover checks that on goroutine ranks any two choices occur together. A placement need not occur with each of the
// small choices.
func checkCover(t *testing.T, vs []variant) {
	t.Helper()
	met := map[[4]int]bool{}
	for _, v := range vs {
		if v.on != local {
			continue
		}
		choices := [...]int{v.place, v.actors - 1, v.task, v.stages - 1, v.epochs - 1, v.sync / 2}
		for i, x := range choices {
			for j, y := range choices {
				met[[4]int{i, x, j, y}] = true
			}
		}
	}
	sizes := [...]int{len(placements), 3, len(tasks), 2, 2, 2}
	for i, n := range sizes {
		for j := i + 1; j < len(sizes); j++ {
			for x := range n {
				for y := range sizes[j] {
					if !met[[4]int{i, x, j, y}] {
						t.Errorf("no variant has choice %d of factor %d with choice %d of factor %d", x, i, y, j)
					}
				}
			}
		}
	}
}

// TestFirstRolloutForAnyActors: before the first update the metrics do not depend on the number of actors.
func TestFirstRolloutForAnyActors(t *testing.T) {
	t.Parallel()
	for i, task := range tasks {
		t.Run(task.name, func(t *testing.T) {
			t.Parallel()
			first := func(actors int) metrics {
				return variant{on: local, task: i, actors: actors, stages: 1, epochs: 1,
					sync: 1}.run(t)[:1].only("env/")
			}
			want := first(1)
			if _, ok := want[0]["env/return"]; !ok {
				t.Fatalf("no episode ended in the first rollout: %v", want)
			}
			for actors := 2; actors <= 3; actors++ {
				first(actors).same(t, want, "%d actors, not the first rollout of one", actors)
			}
		})
	}
}

// TestWatchingChangesNothing: evaluations, their films and checkpoints do not change training, although rollouts use
// older weights than evaluations.
func TestWatchingChangesNothing(t *testing.T) {
	t.Parallel()
	for i, task := range tasks {
		t.Run(task.name, func(t *testing.T) {
			t.Parallel()
			v := variant{on: local, place: 3, task: i, actors: 2, stages: 1, epochs: 1, sync: 3}
			train := func(more ...string) metrics {
				m := v.run(t, more...)
				for _, line := range m {
					maps.DeleteFunc(line, func(name string, _ any) bool { return strings.HasPrefix(name, "eval/") })
				}
				return m
			}
			want := train("runner.val_check_interval=-1")
			if diff := train("runner.val_check_interval=1", "runner.save_interval=1",
				"env.eval.video_cfg={save_video: true, width: 16, height: 16}").diff(want); diff != "" {
				t.Error(diff)
			}
		})
	}
}
