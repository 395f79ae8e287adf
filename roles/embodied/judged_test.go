package embodied

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/policy/resnet"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// A lamp is as bright as its policy has made it: action 1 makes it brighter, action 0 darker. It shows red light in an
// image of 8×8 pixels, and its level as a number.
type lamp struct{ level []float32 }

func (l *lamp) Spec() env.Spec {
	number := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{-9}, High: []float32{9}}
	image := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{8, 8, 3}, Low: make([]float32, 192),
		High: slices.Repeat([]float32{255}, 192)}
	return env.Spec{Name: "lamp", Obs: []env.Field{{Name: "state", Space: number}, {Name: "main_images", Space: image}},
		Action:   env.Space{Kind: env.Discrete, DType: tensor.I32, Shape: []int{1}, Nvec: []int{2}},
		MaxSteps: 6, Info: []string{"success"}}
}
func (l *lamp) Len() int { return len(l.level) }
func (l *lamp) Reset(n int, seed uint64) error {
	l.level[n] = float32(seed % 3)
	return nil
}
func (l *lamp) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, info []float32) error {
	for n, a := range action.I32() {
		if turn[n] != env.Idle {
			l.level[n] = min(max(l.level[n]+2*float32(a)-1, -5), 5)
			reward[n], terminated[n], info[n] = 1, 0, 0
		}
	}
	return nil
}
func (l *lamp) Observe(mask []bool, obs tensor.Dict) {
	for n, x := range l.level {
		if mask != nil && !mask[n] {
			continue
		}
		obs.Must("state").F32()[n] = x
		for k, pixels := 0, obs.Must("main_images").At(n).U8(); k < len(pixels); k += 3 {
			pixels[k] = byte(128 + 25*x)
		}
	}
}
func (l *lamp) Close() error { return nil }

// withLamps returns the registries with lamps.
func withLamps() config.Registries {
	reg := rolestest.Registries()
	reg.Envs.Add("lamp", func(cfg env.Config, n int) (env.Vec, error) {
		return env.NewEpisodic(&lamp{make([]float32, n)}, cfg), nil
	})
	return reg
}

// lampClassifier writes a classifier whose score is above ½ for half of the levels of a lamp, and returns these levels.
func lampClassifier(t *testing.T) (path string, bright map[float32]bool) {
	t.Helper()
	c := resnet.DefaultConfig()
	c = c.Sized([]int{3, 32, 32})
	net := test.Must(resnet.NewClassifier(c, 0, nn.Image{H: 8, W: 8, C: 3}, tensor.Heap))(t)
	net.Init(2)
	logits := map[float32]float32{}
	for level := float32(-5); level <= 5; level++ {
		image := make([]byte, 192)
		for k := 0; k < len(image); k += 3 {
			image[k] = byte(128 + 25*level)
		}
		logits[level] = net.Logits(net.NewWork(1), image, 1)[0]
	}
	sorted := slices.Sorted(maps.Values(logits))
	p := net.Params()
	p.Of(len(p.Fields) - 1)[0] = -(sorted[5] + sorted[6]) / 2 // the bias of the last layer
	bright = map[float32]bool{}
	for level, x := range logits {
		bright[level] = x > sorted[5]
	}
	path = filepath.Join(t.TempDir(), "model.safetensors")
	f := test.Must(os.Create(path))(t)
	test.OK(t, tensor.WriteSafetensors(f, job.ModelDict(p), nil))
	test.OK(t, f.Close())
	return path, bright
}

// recordedLamps returns the rewards and the ends of a rollout of 8 lamps in 12 steps, [T,N], on ranks.
func recordedLamps(t *testing.T, np int, components string, overrides []string) (rewards []float32, terminated []byte,
	levels []float32) {
	t.Helper()
	lamps := []string{"env.train.env_type=lamp", "env.train.observations=[state, main_images]",
		"env.train.total_num_envs=8", "env.train.max_steps_per_rollout_epoch=12", "env.train.max_episode_steps=6",
		"actor.global_batch_size=96", "actor.micro_batch_size=24", "runner.val_check_interval=-1",
		"actor.model.model_type=cnn_policy", "actor.model.encoder=keypoints", "actor.model.hidden_sizes=[8]",
		"reward.use_reward_model=true", "reward.model.model_type=resnet", "reward.model.image_size=[3, 32, 32]"}
	path := placed(t, "../../configs/cartpole_ppo.yaml", components)
	var mu sync.Mutex
	onRanksOf(t, withLamps(), np, path, slices.Concat(lamps, overrides),
		func(ctx context.Context, r *EmbodiedRunner) error {
			if err := r.sendWeights(ctx); err != nil {
				return err
			}
			if err := r.playRollout(ctx, 0); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			for _, a := range r.Actor.Here() {
				d := a.Batch()
				if _, pixels := d.Get("observation.main_images"); pixels == slices.Contains(overrides,
					"actor.model.model_type=mlp_policy") {
					t.Error("a rollout has images that the policy does not see, or lacks those that it sees")
				}
				rewards, terminated = slices.Clone(d.Must("reward").F32()), slices.Clone(d.Must("terminated").U8())
				levels = slices.Clone(d.Must("observation.state").F32())
			}
			return nil
		})
	return rewards, terminated, levels
}

// Env workers score as reward workers do. With standalone_realworld, successes in a row end the episode before anybody
// sees the step. All of this is equal on any ranks.
func TestStandalone(t *testing.T) {
	path, bright := lampClassifier(t)
	model := "reward.model.model_path=" + path
	const together, apart = "actor,env,rollout,reward: 0", "actor: 0; env: 1; rollout: 0; reward: 1"
	ignoring := []string{model, "env.train.ignore_terminations=true"}
	want, _, levels := recordedLamps(t, 1, together, ignoring)
	seen := 0
	for i, x := range want[:11*8] {
		next := levels[i+8]
		switch begins := i/8%6 == 5; { // the next observation belongs to another episode
		case begins:
		case bright[next] != (x > 0.5):
			t.Fatalf("score %v for a lamp of level %v", x, next)
		case bright[next]:
			seen++
		}
	}
	if seen < 5 {
		t.Fatalf("%d bright lamps: the test sees too little", seen)
	}
	blind := slices.Concat(ignoring, []string{"actor.model.model_type=mlp_policy", "~actor.model.encoder"})
	wantBlind, _, levels := recordedLamps(t, 1, together, blind) // the policy sees the level alone
	for i, x := range wantBlind[:11*8] {
		if next := levels[i+8]; i/8%6 != 5 && bright[next] != (x > 0.5) {
			t.Fatalf("score %v for a lamp of level %v, which the policy does not see", x, next)
		}
	}
	for _, more := range [][]string{nil, {"reward.standalone_realworld=true"}} {
		got, _, _ := recordedLamps(t, 2, apart, slices.Concat(blind, more))
		test.EqualSlices(t, got, wantBlind)
	}

	if testing.Short() {
		return
	}
	alone := slices.Concat(ignoring, []string{"reward.standalone_realworld=true"})
	for _, c := range []struct {
		np         int
		components string
		overrides  []string
	}{{2, apart, ignoring}, {1, together, alone}, {2, "actor: 0; env: 1; rollout: 0", alone}} {
		if got, _, _ := recordedLamps(t, c.np, c.components, c.overrides); !slices.Equal(got, want) {
			t.Errorf("%s %v: %v\nwant %v", c.components, c.overrides, got, want)
		}
	}

	ending := []string{model, "reward.standalone_realworld=true", "reward.success_hold_steps=2"}
	rewards, terminated, levels := recordedLamps(t, 1, together, ending)
	ends, held, age := 0, make([]int, 8), make([]int, 8)
	for i, x := range rewards {
		n := i % 8
		age[n]++
		if held[n]++; x <= 0.5 {
			held[n] = 0
		}
		over := held[n] == 2
		if over != (terminated[i] != 0) {
			t.Errorf("step %d of environment %d: %d successes, terminated %d", i/8, n, held[n], terminated[i])
		}
		if over {
			ends++
		}
		if over || age[n] == 6 {
			held[n], age[n] = 0, 0
			if next := i + 8; next < len(levels) && (levels[next] < 0 || levels[next] > 2) {
				t.Errorf("the episode after step %d begins at level %v", i/8, levels[next])
			}
		}
	}
	if ends < 2 {
		t.Errorf("%d episodes ended by success: the test sees too little", ends)
	}
	got, _, _ := recordedLamps(t, 2, apart, ending)
	test.EqualSlices(t, got, rewards)
}

func TestStandaloneMistakes(t *testing.T) {
	for want, overrides := range map[string][]string{
		"reward.model.model_path: \"\": expected a file":          {"reward.model.model_path="},
		"standalone_realworld: true: expected false, or model.mo": {"reward.model.model_type=mlp_policy"},
		"env.train.auto_reset: false: expected true":              {"env.train.auto_reset=false"},
		"actor.model.num_action_chunks: 2: expected 1":            {"actor.model.num_action_chunks=2"},
		"expected an observation main_images, or only one":        nil,
	} {
		cfg, _, err := config.Load(rolestest.Registries(), placed(t, "../../configs/cartpole_ppo.yaml",
			"actor,env,rollout: 0"), slices.Concat([]string{"reward.use_reward_model=true",
			"reward.model.model_type=resnet", "reward.standalone_realworld=true", "reward.model.model_path=x"},
			overrides), false)
		if cfg == nil {
			t.Fatal(err)
		}
		if _, complete := (Task{}).Draft(cfg, rolestest.Registries(), []int{0}).Complete(cfg,
			rolestest.Registries()); err == nil {
			err = complete
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v\nwant %s", overrides, err, want)
		}
	}
}
