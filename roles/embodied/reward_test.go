package embodied

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/tensor"
)

// placed writes the configuration of path with another placement, such as "actor: 0-1; env,rollout: 2".
func placed(t *testing.T, path, components string) string {
	t.Helper()
	text := test.Must(os.ReadFile(path))(t)
	head, rest, ok := strings.Cut(string(text), "  component_placement:\n")
	if !ok {
		t.Fatalf("%s places no components", path)
	}
	for strings.HasPrefix(rest, "    ") {
		_, rest, _ = strings.Cut(rest, "\n")
	}
	place := ""
	for _, line := range strings.Split(components, "; ") {
		place += "    " + line + "\n"
	}
	file := filepath.Join(t.TempDir(), "job.yaml")
	test.OK(t, os.WriteFile(file, []byte(head+"  component_placement:\n"+place+rest), 0o600))
	return file
}

// potential is larger for an upright pole: Φ(s) = -|angle|.
var potential = []string{"reward.reward_type=potential", "reward.potential.indices=[2]", "reward.potential.target=[0]"}

// small makes a job of 16 environments, whose episodes end within a few steps.
var small = []string{
	"env.train.total_num_envs=16", "env.train.max_steps_per_rollout_epoch=12", "env.train.max_episode_steps=10",
	"actor.global_batch_size=96", "actor.micro_batch_size=24", "runner.val_check_interval=-1",
}

// metricsOf returns the metrics of a few iterations.
func metricsOf(t *testing.T, np int, components string, n int, overrides []string) (names []string, all [][]float64) {
	t.Helper()
	var mu sync.Mutex
	onRanks(t, np, placed(t, "../../configs/cartpole_ppo.yaml", components), overrides,
		func(ctx context.Context, r *EmbodiedRunner) error {
			for range n {
				if err := r.iterate(ctx); err != nil {
					return err
				}
				if mu.Lock(); r.loop.Report().Names != nil {
					names, all = slices.Clone(r.loop.Report().Names), append(all, slices.Clone(r.loop.Report().Values))
				}
				mu.Unlock()
			}
			return nil
		})
	return names, all
}

// TestRecordedRewardsAreTheRules: the recorded rewards are those of the rule, for the observations before and after the
// step. The observation after the step is the one before a reset.
func TestRecordedRewardsAreTheRules(t *testing.T) {
	for _, c := range []struct {
		name, components string
		np               int
		more             []string
	}{
		{"in the rollout worker's own environments", "actor,env,rollout,reward: 0", 1, nil},
		{"by channel", "actor: 0; env: 1; rollout: 0; reward: 1", 2, nil},
		{"without auto_reset", "actor: 0; env: 1; rollout: 0; reward: 1", 2, []string{"env.train.auto_reset=false"}},
		{"bootstrap_type always", "actor: 0; env: 1; rollout: 0; reward: 1", 2, []string{"env.train.auto_reset=false",
			"algorithm.bootstrap_type=always"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := placed(t, "../../configs/cartpole_ppo.yaml", c.components)
			goesOn, ends, idles := 0, 0, 0
			long := []string{"env.train.max_steps_per_rollout_epoch=60", "env.train.max_episode_steps=40"}
			onRanks(t, c.np, path, slices.Concat(small, long, potential, c.more),
				func(ctx context.Context, r *EmbodiedRunner) error {
					if err := r.sendWeights(ctx); err != nil {
						return err
					}
					if err := r.playRollout(ctx, 0); err != nil {
						return err
					}
					for _, a := range r.Actor.Here() {
						d := a.Batch()
						obs, reward := d.Must("observation.state"), d.Must("reward").F32()
						terminated, truncated := d.Must("terminated").U8(), d.Must("truncated").U8()
						angle := func(i int) float64 { return math.Abs(float64(obs.F32()[4*i+2])) }
						gamma := float64(r.plan.Config.Algorithm.Gamma)
						for i := range 59 * 16 { // the observation after the last step is not recorded
							want := angle(i) - gamma*angle(i+16)
							mask, masked := d.Get("mask")
							switch {
							case masked && mask.U8()[i] == 0:
								want, idles = 0, idles+1
							case terminated[i] != 0:
								if ends++; !r.plan.BootstrapAll { // else the idle environment shows the end
									want = angle(i)
								}
							case truncated[i] != 0: // the episode's last observation was not recorded
								continue
							default:
								goesOn++
							}
							if float32(want) != reward[i] {
								return fmt.Errorf("step %d of environment %d: reward %v, want %v", i/16, i%16,
									reward[i], want)
							}
						}
					}
					return nil
				})
			if goesOn < 100 || ends < 3 || c.more != nil && idles < 3 {
				t.Errorf("%d steps within episodes, %d ends, %d idle: the test sees too little", goesOn, ends, idles)
			}
		})
	}
}

// With reward_mode terminal and without auto_reset, every episode is paid in its last step, also if the end of the
// epoch cuts the episode off.
func TestTerminalRewardsOfEpisodesThatAreCutOff(t *testing.T) {
	for _, c := range []struct {
		name, components string
		np               int
		more             []string
	}{
		{"in the rollout worker's own environments", "actor,env,rollout,reward: 0", 1, nil},
		{"by channel", "actor: 0; env: 1; rollout: 0; reward: 1", 2, []string{"rollout.pipeline_stage_num=2"}},
		{"chunks", "actor,env,rollout,reward: 0", 1, []string{"actor.model.num_action_chunks=2",
			"env.train.max_steps_per_rollout_epoch=8"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// no pole falls within four steps
			cut := []string{"env.train.auto_reset=false", "env.train.max_steps_per_rollout_epoch=4",
				"env.train.rollout_epoch=2", "actor.global_batch_size=32", "actor.micro_batch_size=16",
				"reward.reward_type=env", "reward.reward_mode=terminal"}
			onRanks(t, c.np, placed(t, "../../configs/cartpole_ppo.yaml", c.components),
				slices.Concat(small, cut, c.more), func(ctx context.Context, r *EmbodiedRunner) error {
					if err := r.sendWeights(ctx); err != nil {
						return err
					}
					if err := r.playRollout(ctx, 0); err != nil {
						return err
					}
					for _, a := range r.Actor.Here() {
						for i, got := range a.Batch().Must("reward").F32() {
							want := float32(0)
							if t := i / 16; t%4 == 3 {
								want = float32(r.plan.Chunks)
							}
							if got != want {
								return fmt.Errorf("step %d of environment %d: reward %v, want %v", i/16, i%16,
									got, want)
							}
						}
					}
					return nil
				})
		})
	}
}

// The metrics do not depend on the ranks and the number of reward workers. Without reward workers the metrics differ.
func TestRewardsOnAnyRanks(t *testing.T) {
	model := rewardModel(t)
	run := func(np int, components string, overrides []string) [][]float64 {
		_, all := metricsOf(t, np, components, 3, slices.Concat(small, overrides))
		return all
	}
	plain := run(1, "actor,env,rollout: 0", nil)
	for name, asks := range map[string][]string{
		"rule": potential,
		"model": {"reward.use_reward_model=true", "reward.model.model_path=" + model, "reward.env_reward_weight=0.5",
			"reward.model.hidden_sizes=[16]"},
	} {
		t.Run(name, func(t *testing.T) {
			want := run(1, "actor,env,rollout,reward: 0", asks)
			if len(want) != 3 || slices.EqualFunc(want, plain, slices.Equal[[]float64]) {
				t.Fatalf("with rewards %v\nwithout %v", want, plain)
			}
			for _, c := range []struct {
				components string
				np         int
				more       []string
			}{
				{"actor: 0; env: 1; rollout: 2; reward: 3", 4, []string{"rollout.pipeline_stage_num=2"}},
				{"actor: 0; env: 0-1; rollout: 0-1; reward: '1:0-2'", 2, nil}, // three workers share two routes
				{"actor: 1; env: '0:0-1'; rollout: '1:0-3'; reward: '0'", 2, []string{"rollout.pipeline_stage_num=2"}},
			} {
				if got := run(c.np, c.components, slices.Concat(asks, c.more)); !slices.EqualFunc(got, want,
					slices.Equal[[]float64]) {
					t.Errorf("%s: %v\non one rank %v", c.components, got, want)
				}
			}
		})
	}
}

// rewardModel writes the parameters of a small network for CartPole to a file.
func rewardModel(t *testing.T) string {
	t.Helper()
	net := rolestest.NewPolicy(t, rolestest.EnvConfig("CartPole-v1", 1), 7, func(c *policy.Config) {
		c.HiddenSizes = []int{16}
	})
	path := filepath.Join(t.TempDir(), "model.safetensors")
	f := test.Must(os.Create(path))(t)
	test.OK(t, tensor.WriteSafetensors(f, job.ModelDict(net.Params()), nil))
	test.OK(t, f.Close())
	return path
}

// The parts that the section reward names must exist, and fit the job.
func TestRewardMistakes(t *testing.T) {
	reg := rolestest.Registries()
	for _, c := range []struct {
		components string
		overrides  []string
		want       string
	}{
		{"actor,env,rollout: 0", potential,
			"cluster.component_placement: expected a place for reward, as 0 or all (the section reward asks for it)"},
		{"actor,env,rollout,reward: 0", []string{"reward.reward_type=sucess"},
			"reward.reward_type: sucess: expected one of env, success, potential"},
		{"actor,env,rollout,reward: 0", []string{"reward.reward_mode=now"},
			"reward.reward_mode: now: expected per_step or terminal"},
		{"actor,env,rollout,reward: 0", []string{"reward.use_reward_model=true", "reward.model.model_path=x",
			"reward.model.model_type=vlm"},
			`reward.model.model_type: vlm: expected one of mlp_policy`},
	} {
		cfg, _, err := config.Load(rolestest.Registries(), placed(t, "../../configs/cartpole_ppo.yaml", c.components),
			c.overrides, false)
		if cfg == nil {
			t.Fatal(err)
		}
		if _, err = (Task{}).Draft(cfg, reg, []int{0}).Complete(cfg, reg); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: got %v\nwant %s", c.overrides, err, c.want)
		}
	}
	cfg, _, err := config.Load(rolestest.Registries(),
		placed(t, "../../configs/cartpole_ppo.yaml", "actor,env,rollout,reward: 0"),
		// a network with other hidden sizes
		[]string{"reward.use_reward_model=true", "reward.model.model_path=" + rewardModel(t)}, false)
	test.OK(t, err)
	j := test.Must(Task{}.Draft(cfg, reg, []int{0}).Complete(cfg, reg))(t)
	if err := j.CheckFiles(0); err == nil || !strings.Contains(err.Error(), "reward.model.model_path") ||
		!strings.Contains(err.Error(), "actor.0.weight is") {
		t.Errorf("another network's parameters: %v", err)
	}
}

// A run that resumes with new episodes does not go on with the returns of the old ones.
func TestReturnsEndWithTheirEpisodes(t *testing.T) {
	onRanks(t, 1, placed(t, "../../configs/cartpole_ppo.yaml", "actor,env,rollout: 0"),
		append(slices.Clone(small), "algorithm.normalize_rewards=true"),
		func(_ context.Context, r *EmbodiedRunner) error {
			a := leader{r}.Workers()[0]
			pack, err := state.NewPack(a.State(state.Purpose{}))
			if err != nil {
				return err
			}
			running := pack[slices.IndexFunc(pack, func(p state.Part) bool {
				return p.Field.Name == "trainer.env.return"
			})].Memory
			for _, want := range []float64{0, 7} {
				x := tensor.FromF64([]float64{7}, 1).Bytes()
				for i := range running {
					running[i] = x[i%8]
				}
				if err := pack.Take(a.State(state.Purpose{})); err != nil {
					return err
				}
				if x := tensor.FromF64([]float64{want}, 1).Bytes(); !bytes.HasPrefix(running, x) ||
					!bytes.HasSuffix(running, x) {
					t.Errorf("returns %v after a resume, want %v", running, want)
				}
				pack = append(pack, state.PartOf(state.EnvFile, "episodes.return", tensor.New(tensor.F64, 16),
					nn.Slice{})) // now the episodes go on
			}
			return nil
		})
}
