package plan

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/env/envtest/squares"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/resnet/resnettest"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/tensor"
)

// TestCheckObservations: environments whose observations exceed the nodes' memory are an error, for any number of
// steps.
func TestCheckObservations(t *testing.T) {
	for _, c := range []struct {
		overrides []string
		nodes     int
		have      int64
		want      string
	}{
		{nil, 1, 128 * 64 * 16, ""}, // steps, environments, bytes of an observation
		{nil, 1, 128*64*16 - 1, "../config/testdata/cartpole.yaml:16: env.train.total_num_envs: 64: expected fewer " +
			"environments or shorter rollouts: " +
			"128 observations of 16 bytes of each are 0 MiB on one node, and this machine has 0.1 MiB free"},
		{nil, 2, 64 * 64 * 16, ""},
		{[]string{"env.train.max_steps_per_rollout_epoch=4611686018427387904",
			"env.train.rollout_epoch=4611686018427387904"}, 1, 1 << 40, "env.train.total_num_envs: 64"},
		{[]string{"env.eval.total_num_envs=1048576"}, 1, 1 << 23, "env.eval.total_num_envs: 1048576"},
	} {
		cfg, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, c.overrides, false)
		test.OK(t, err)
		j := newTestDraft(cfg, 1, 1, 1)
		if j.Spec, err = rolestest.Registries().Probe(cfg.Env.Train); err != nil {
			t.Fatal(err)
		}
		j.checkObservations(c.nodes, job.Available{Free: c.have, Where: "this machine"})
		if err := j.found.Err(); (err == nil) != (c.want == "") ||
			err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, %d nodes of %d bytes: %v\nwant %s", c.overrides, c.nodes, c.have, err, c.want)
		}
	}
}

// TestChecksDrawNothing: a check makes policies without initial parameters, which take minutes to draw for wide layers.
func TestChecksDrawNothing(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "reward.use_reward_model=true", "reward.model.model_path=x",
		"cluster.component_placement={actor: 0, env: 0, rollout: 0, reward: 0}")
	reg, drawn, blank := rolestest.Registries(), 0, 0
	reg.Policies = new(policy.Registry)
	reg.Policies.Add("mlp_policy",
		func(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy, error) {
			if cfg.Blank {
				blank++
			} else {
				drawn++
			}
			return policy.NewMLP(cfg, spec, seed, alloc)
		})
	p := test.Must(newPlan(cfg, reg, make([]int, 1)))(t)
	if drawn > 0 || blank != 2 {
		t.Errorf("%d policies with initial parameters and %d without, want 0 and 2: of actor and reward", drawn, blank)
	}
	if err := p.Fits(nil, tensor.Dict{}); drawn > 0 || err == nil || !strings.Contains(err.Error(), "model: no ") {
		t.Errorf("a file without weights: %v, and %d policies with initial parameters", err, drawn)
	}
}

// fileless is a policy whose files are missing.
type fileless struct{ policy.Policy }

func (fileless) CheckFiles() error { return errors.New("no file of weights") }

// TestChecksFiles: a check finds errors in the files of a policy's initial parameters. If there is no policy, its error
// comes first.
func TestChecksFiles(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole)
	reg := rolestest.Registries()
	for want, broken := range map[string]error{"no file of weights": nil, "no layers": errors.New("no layers")} {
		reg.Policies = new(policy.Registry)
		reg.Policies.Add("mlp_policy",
			func(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy, error) {
				pol, err := policy.NewMLP(cfg, spec, seed, alloc)
				return fileless{pol}, errors.Join(err, broken)
			})
		_, err := newPlan(cfg, reg, make([]int, 8))
		rolestest.Expect(t, "mistakes", rolestest.ErrorLines(err),
			rolestest.Cartpole+":23: actor.model.model_type: mlp_policy (the default): expected a policy that fits: "+
				want)
	}
}

// TestTooLarge: parts that fit into no memory are an error of their key, before they are made. If the environments do
// not fit, no policy is made.
func TestTooLarge(t *testing.T) {
	if have := job.FindAvailable("/", 1); have.Free > 1<<40 {
		t.Skipf("%v: want a machine with less", have)
	}
	for _, c := range []struct {
		key, value, want string
		policies         int // number of policies that were begun
	}{
		{"actor.model.hidden_sizes", "[16384" + strings.Repeat(",16384", 1100) + "]", "expected a smaller policy: ", 1},
		{"env.train.max_steps_per_rollout_epoch", "1099511627776",
			"env.train.total_num_envs: 64: expected fewer environments or shorter rollouts: ", 0},
	} {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, c.key+"="+c.value)
		reg, policies := rolestest.Registries(), 0
		reg.Policies = new(policy.Registry)
		reg.Policies.Add("mlp_policy",
			func(cfg policy.Config, spec env.Spec, seed uint64, alloc tensor.Allocator) (policy.Policy, error) {
				policies++
				return policy.NewMLP(cfg, spec, seed, alloc)
			})
		_, err := newPlan(cfg, reg, make([]int, 8))
		if err == nil || !strings.Contains(err.Error(), c.want) || policies != c.policies {
			t.Errorf("%s %.30s: %d policies begun, %v\nwant %d, %s", c.key, c.value, policies, err, c.policies, c.want)
		}
	}
}

// TestCheckMemory: it is an error if a node's ranks need more memory than the node has.
func TestCheckMemory(t *testing.T) {
	cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "cluster.num_nodes=2")
	nodes := []int{0, 0, 0, 0, 1, 1, 1, 1}
	j := test.Must(newPlan(cfg, rolestest.Registries(), nodes))(t)
	need := int64(0)
	for r := 4; r < 8; r++ {
		mem := j.MemoryOf(r)
		need += mem.Parameters + mem.Optimiser + mem.Rollouts + mem.Channels
	}
	if err := j.CheckMemory(nodes, 1, job.Available{Free: need}); err != nil || j.paramBytes == 0 {
		t.Errorf("%d bytes: %v", need, err)
	}
	if err := j.CheckMemory(nodes, 1, job.Available{Free: need - 1}); err == nil ||
		!strings.Contains(err.Error(), "node 1 needs "+figures.MiB(need)) {
		t.Errorf("%d bytes: %v", need-1, err)
	}
}

// newSAC returns the plan of configs/pendulum_sac.yaml on ranks of one node. It may have the task of package squares.
func newSAC(t *testing.T, ranks int, overrides ...string) *Plan {
	t.Helper()
	reg := rolestest.Registries()
	reg.Envs.Add("Squares-v0", squares.New)
	cfg, _, err := config.Load(reg, "../../configs/pendulum_sac.yaml", overrides, false)
	test.OK(t, err)
	return test.Must(newPlan(cfg, reg, make([]int, ranks)))(t)
}

// TestActorBytes: the estimate is what the algorithm allocates beside the replay buffer: critics, targets, encoders and
// moments.
func TestActorBytes(t *testing.T) {
	for _, overrides := range [][]string{
		{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac", "actor.model.num_q_heads=3"},
		{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac", "env.train.env_type=Squares-v0",
			"actor.model.model_type=cnn_policy", "actor.model.encoder=keypoints", "actor.enable_drq=true"},
		{"algorithm.adv_type=embodied_crossq", "algorithm.loss_type=embodied_crossq",
			"actor.model.q_head_type=crossq"},
		{"algorithm.adv_type=embodied_td3", "algorithm.loss_type=embodied_td3", "actor.model.exploration_noise=0.1"},
		{"algorithm.adv_type=embodied_dqn", "algorithm.loss_type=embodied_dqn", "env.train.env_type=CartPole-v1"},
	} {
		p := newSAC(t, 1, overrides...)
		taken := 0
		alloc := func(n int) ([]byte, error) {
			taken += n
			return tensor.Heap(n)
		}
		pol := test.Must(p.NewPolicy(alloc))(t)
		ofPolicy := taken
		test.Must(p.NewAlgorithm(algo.Setup{Policy: pol, Alloc: alloc}))(t)
		window := p.Config.Algorithm.OffPolicy.ReplayBuffer.SampleWindowSize
		test.Equal(t, p.learnerBytes, taken-p.replayBytes(window)-ofPolicy, "%q", overrides)
		if p.learnerBytes < ofPolicy {
			t.Errorf("%q: %d bytes for critics and optimisers, %d for the policy", overrides, p.learnerBytes, ofPolicy)
		}
	}
}

// TestMemoryOfFrozenLayers: ranks that read images have the weights of a ResNet-10, 4.9 million.
func TestMemoryOfFrozenLayers(t *testing.T) {
	const file = "resnet10.safetensors"
	weights := []string{"cluster.component_placement={actor: 0, rollout: 1, env: 1}", "env.train.env_type=Squares-v0",
		"actor.model.model_type=cnn_policy", "actor.model.backbone=resnet",
		"actor.model.model_path=" + resnettest.Folder(t, file), "actor.model.encoder_config.ckpt_name=" + file}
	maps, pixels := newSAC(t, 2, weights...), newSAC(t, 2, append(weights, "actor.enable_drq=true")...)
	const bytes = 4 * 4_900_000
	of := func(p *Plan, r int) int64 { return p.MemoryOf(r).Parameters }
	if got := of(pixels, 0) - of(maps, 0); got < bytes*9/10 || got > bytes*11/10 {
		t.Errorf("an actor that gets pixels has %d bytes more than one that gets feature maps, want %d", got, bytes)
	}
	if of(maps, 1) != of(pixels, 1) || of(maps, 1) < bytes*9/10 {
		t.Errorf("ranks with rollouts: %d bytes, and %d for actors that get pixels", of(maps, 1), of(pixels, 1))
	}
}

// TestMemoryOfClassifier: each stage of an env worker that judges has a classifier, or each reward worker.
func TestMemoryOfClassifier(t *testing.T) {
	const parameters, work = 44 << 20, 20 << 20
	for _, c := range []struct {
		want      [2]int64
		overrides []string
	}{
		{[2]int64{0, 2 * (parameters + work)}, []string{"reward.standalone_realworld=true",
			"rollout.pipeline_stage_num=2", "env.train.total_num_envs=2",
			"cluster.component_placement={actor: 0, rollout: 0, env: 1}"}},
		{[2]int64{0, parameters + work}, []string{
			"cluster.component_placement={actor: 0, rollout: 0, env: 0, reward: 1}"}},
	} {
		p := newSAC(t, 2, append(c.overrides, "reward.use_reward_model=true", "reward.model.model_type=resnet",
			"reward.model.model_path=x", "reward.model.image_size=[3, 32, 32]", "env.train.env_type=Squares-v0")...)
		for r, want := range c.want {
			if got := p.MemoryOf(r).Activations; float64(got) < 0.9*float64(want) || float64(got) > 1.1*float64(want) {
				t.Errorf("%q: %d bytes on rank %d, want about %d", c.overrides, got, r, want)
			}
		}
	}
}

// TestMemoryOfRollouts: an actor and a rollout worker of a rank share rollouts, unless they are asynchronous. An actor
// that joins shards has one copy more.
func TestMemoryOfRollouts(t *testing.T) {
	of := func(place string) [2]int64 {
		cfg, _ := rolestest.MustLoad(t, rolestest.Cartpole, "cluster.component_placement="+place,
			"cluster.allow_idle_ranks=true", "rollout.pipeline_stage_num=1")
		p := test.Must(newPlan(cfg, rolestest.Registries(), []int{0, 0}))(t)
		each := int64(p.TrajectoryLayout(64).Size())
		return [2]int64{p.MemoryOf(0).Rollouts / each, p.MemoryOf(1).Rollouts / each}
	}
	test.Equal(t, of("{actor: 0, env: 0, rollout: 0}"), [2]int64{2, 0})
	test.Equal(t, of("{actor: 0, env: 0, rollout: 1}"), [2]int64{2, 2})
	test.Equal(t, of("{actor: 0, env: 0-1, rollout: 0-1}"), [2]int64{3, 1})
}
