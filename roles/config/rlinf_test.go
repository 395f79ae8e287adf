package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
)

// TestSpellings: our keys accept values as Python and PyTorch write them.
func TestSpellings(t *testing.T) {
	c, warnings := rolestest.MustLoad(t, rolestest.Cartpole,
		"algorithm.normalize_advantages=False", "runner.only_eval=False", "env.train.auto_reset=TRUE",
		"actor.optim.lr_scheduler=torch_cosine", "actor.critic_optim.lr_scheduler=torch_constant",
		"actor.model.hidden_dim=32", "algorithm.critic_subsample_size=0",
		"actor.fsdp_config.reshard_after_forward=True",
		"env.train.init_params.control_mode=None", "runner.eval_policy_path=null")
	rolestest.Expect(t, "warnings", warnings,
		"command line: runner.eval_policy_path is an old name, today it is runner.ckpt_path",
		"keys without effect here\n  THESE CHANGE WHAT IS LEARNT OR MEASURED:\n"+
			"    actor.critic_optim.lr_scheduler  constant  command line  adv_type gae with loss_type actor_critic "+
			"does not read it\n"+
			"    algorithm.critic_subsample_size  0         command line  adv_type gae with loss_type actor_critic "+
			"does not read it")
	if c.Algorithm.NormalizeAdvantages != algo.NormalizeNone || c.Runner.OnlyEval || !c.Env.Train.AutoReset {
		t.Errorf("True and False: %+v %+v", c.Algorithm.NormalizeAdvantages, c.Env.Train.AutoReset)
	}
	if c.Actor.Optim.LRScheduler != algo.ScheduleCosine || c.Actor.CriticOptim.LRScheduler != algo.ScheduleConstant {
		t.Errorf("schedules %q and %q", c.Actor.Optim.LRScheduler, c.Actor.CriticOptim.LRScheduler)
	}
	if want := []int{32, 32, 32}; !slices.Equal(c.Actor.Model.HiddenSizes, want) {
		t.Errorf("hidden_dim 32 is hidden_sizes %v, want %v", c.Actor.Model.HiddenSizes, want)
	}
	c, _ = rolestest.MustLoad(t, rolestest.Cartpole, "actor.model.hidden_dim=32", "actor.model.hidden_sizes=[8]")
	if want := []int{8}; !slices.Equal(c.Actor.Model.HiddenSizes, want) {
		t.Errorf("hidden_sizes %v, want %v", c.Actor.Model.HiddenSizes, want)
	}
}

// TestAlgorithmsOfRLinf: RLinf names algorithms by loss_type and the kind of critic.
func TestAlgorithmsOfRLinf(t *testing.T) {
	sac := []string{"algorithm.adv_type=embodied_sac", "algorithm.loss_type=embodied_sac",
		"actor.model.add_q_head=true",
		"algorithm.replay_buffer.sample_window_size=200"}
	for _, tc := range []struct {
		want      string
		overrides []string
	}{
		{"embodied_sac", sac},
		{"embodied_crossq", append(slices.Clone(sac), "actor.model.q_head_type=crossq")},
		{"embodied_dagger", []string{"algorithm.adv_type=gae", "algorithm.loss_type=embodied_dagger",
			"algorithm.replay_buffer.sample_window_size=200"}},
		{"offline_iql", []string{"algorithm.adv_type=null", "algorithm.loss_type=offline_iql",
			"algorithm.demo_buffer.load_path=x", "runner.task_type=offline"}},
	} {
		c, _ := rolestest.MustLoad(t, rolestest.Cartpole, tc.overrides...)
		if c.Algorithm.AdvType != tc.want || c.Algorithm.LossType != tc.want {
			t.Errorf("%q: %s with %s, want %s", tc.overrides, c.Algorithm.LossType, c.Algorithm.AdvType, tc.want)
		}
	}
}

// TestCriticOfRLinf: RLinf says by critic.use_critic_model that answers have a critic, and has its optimiser in the
// section critic.
func TestCriticOfRLinf(t *testing.T) {
	args := []string{"algorithm.adv_type=gae", "algorithm.loss_type=actor", "actor.optim.lr=0.5",
		"+critic.use_critic_model=True", "+critic.optim={lr: 0.25}",
		"+critic.group_name=CriticGroup"}
	c, warnings, _ := config.Load(rolestest.Registries(), rolestest.Cartpole,
		append(slices.Clone(args), "runner.task_type=reasoning",
			"+critic.model={hidden_size: 8}"), false) // the file has no texts, which is an error
	if c.Algorithm.LossType != "actor_critic" || c.Actor.CriticOptim.LR != 0.25 || c.Actor.Optim.LR != 0.5 {
		t.Errorf("%s, lr %v and %v", c.Algorithm.LossType, c.Actor.CriticOptim.LR, c.Actor.Optim.LR)
	}
	if said := fmt.Sprint(warnings); !strings.Contains(said, "critic.model.hidden_size") ||
		strings.Contains(said, "use_critic_model ") {
		t.Error(said)
	}
	c, warnings = rolestest.MustLoad(t, rolestest.Cartpole, args...)
	if said := fmt.Sprint(warnings); c.Algorithm.LossType != "actor" ||
		!strings.Contains(said, "critic.use_critic_model") {
		t.Errorf("an algorithm of environments: %s, %s", c.Algorithm.LossType, said)
	}
}

// TestCriticRate: critics learn at critic_optim.value_lr, else at critic_optim.lr. If both are left out, they learn at
// the rate that actor.optim has for critics. A recorded configuration gives the same rates.
func TestCriticRate(t *testing.T) {
	for _, tc := range []struct {
		overrides []string
		want      float32
	}{
		{nil, 0.5},
		{[]string{"actor.optim.value_lr=0.125"}, 0.125},
		{[]string{"actor.optim.value_lr=0.125", "actor.critic_optim.lr=0.25"}, 0.25},
		{[]string{"actor.optim.value_lr=0.125", "+critic.optim={lr: 0.25}"}, 0.25},
		{[]string{"actor.optim.value_lr=0.125", "actor.critic_optim.value_lr=0.0625"}, 0.0625},
		{[]string{"actor.critic_optim.lr=0.25", "actor.critic_optim.value_lr=0.0625"}, 0.0625},
		{[]string{"actor.optim.value_lr=0.125", "actor.critic_optim.value_lr=0"}, 0.5},
	} {
		c, _ := rolestest.MustLoad(t, rolestest.Cartpole, append(tc.overrides, "actor.optim.lr=0.5")...)
		again := test.Must(config.Parse(rolestest.Registries(), c.Resolved()))(t)
		if got := c.Actor.CriticOptim.CriticLR(); got != tc.want || again.Actor.CriticOptim.CriticLR() != got {
			t.Errorf("%q: critics learn at %v, then %v, want %v", tc.overrides, got,
				again.Actor.CriticOptim.CriticLR(), tc.want)
		}
	}
}

// TestEnvironmentOfTheCommandLine: the command line overrules init_params.id of a file. Evaluations follow training if
// the file has the same environment for both.
func TestEnvironmentOfTheCommandLine(t *testing.T) {
	both := "{env_type: maniskill, init_params: {id: PickCube-v1}}"
	command := "env.train.external.command=sim"
	for _, tc := range []struct {
		train, eval string
		overrides   []string
		want        [2]string
	}{
		{both, both, nil, [2]string{"PickCube-v1", "PickCube-v1"}},
		{both, both, []string{"env.train.env_type=Pendulum-v1"}, [2]string{"Pendulum-v1", "Pendulum-v1"}},
		{both, both, []string{"env.train.init_params.id=Pendulum-v1"}, [2]string{"Pendulum-v1", "Pendulum-v1"}},
		{both, both, []string{"env.train.env_type=external", command}, [2]string{env.ExternalID, env.ExternalID}},
		{both, both, []string{command}, [2]string{env.ExternalID, env.ExternalID}},
		{both, both, []string{command, "env.eval.env_type=external"}, [2]string{env.ExternalID, env.ExternalID}},
		{both, both, []string{"env.train.init_params.id=A-v1", "env.train.env_type=B-v1"}, [2]string{"A-v1", "A-v1"}},
		{both, "{env_type: Acrobot-v1}", []string{"env.train.env_type=Pendulum-v1"},
			[2]string{"Pendulum-v1", "Acrobot-v1"}},
		{both, both, []string{"env.eval.env_type=Acrobot-v1", "env.train.env_type=Pendulum-v1"},
			[2]string{"Pendulum-v1", "Acrobot-v1"}},
		{"{}", "{env_type: d4rl}", []string{command}, [2]string{env.ExternalID, env.ExternalID}},
		{"{env_type: CartPol-v1}", "{}", []string{command}, [2]string{"CartPol-v1", "CartPol-v1"}}, // a slip stays one
	} {
		file := filepath.Join(t.TempDir(), "job.yaml")
		test.OK(t, os.WriteFile(file, []byte("env: {train: "+tc.train+", eval: "+tc.eval+"}\n"), 0o666))
		c, _, _ := config.Load(rolestest.Registries(), file, tc.overrides, false)
		test.Equal(t, [2]string{c.Env.Train.ID(), c.Env.Eval.ID()}, tc.want,
			"train %s, eval %s, %q", tc.train, tc.eval, tc.overrides)
	}
}

// TestUnsetVariables: an unset variable is an error only in a key that has an effect.
func TestUnsetVariables(t *testing.T) {
	const path = "${oc.env:RLINF_TEST_UNSET}/x"
	_, warnings := rolestest.MustLoad(t, rolestest.Cartpole, "env.train.assets_path="+path,
		"runner.ckpt_path=${oc.select:a.b,w}")
	if len(warnings) != 1 || !strings.Contains(warnings[0], path) {
		t.Errorf("warnings %q", warnings)
	}
	_, _, err := config.Load(rolestest.Registries(), rolestest.Cartpole, []string{"runner.ckpt_path=" + path}, false)
	rolestest.Expect(t, "errors", rolestest.ErrorLines(err),
		"command line: runner.ckpt_path: "+path+": environment variable RLINF_TEST_UNSET is not set")
}
