package cli

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/loop"
)

// TestNotes: check warns of settings that the simulator or the demonstrations do not allow, with the numbers.
func TestNotes(t *testing.T) {
	dir := t.TempDir()
	sim := standIn{obs: 2, act: 2, limit: 40}
	file := filepath.Join(dir, "job.yaml")
	test.OK(t, os.WriteFile(file, []byte(keyJob), 0o666))
	record := func(name string, flags ...string) string {
		t.Helper()
		out := filepath.Join(dir, name)
		flags = append([]string{"demos", "-c", file, "--all", "--out", out}, flags...)
		code, stdout, stderr := runWith(t, sim.registries(), flags...)
		if code != loop.ExitOK {
			t.Fatal(stderr)
		}
		if still := slices.Contains(flags, "--still"); strings.Contains(stdout, "left out") != still {
			t.Errorf("demos %v: %s", flags, stdout)
		}
		return " algorithm.demo_buffer.load_path=" + out
	}
	all, one := record("all", "--episodes", "5"), record("one", "--episodes", "1")
	still := record("still", "--episodes", "5", "--still", "0.9")
	const iql = "algorithm.adv_type=offline_iql algorithm.loss_type=offline_iql actor.model.add_q_head=true"
	const bc = "algorithm.adv_type=embodied_bc algorithm.loss_type=embodied_bc"
	external := "env.train.env_type=external env.train.max_episode_steps="
	for _, tc := range []struct{ overrides, want string }{
		{external + "40", ""},
		{external + "40 env.train.external.n=3 rollout.pipeline_stage_num=2",
			"cores: 7 for each rank (6 simulators and 1 rollout worker at the same time)"},
		{external + "1000", "warning: env.train.max_episode_steps: 1000, but StandIn-v0 names a limit of its own: 40."},
		{"env.train.max_episode_steps=1000", ""}, // environments in Go take any limit
		{iql + all + " algorithm.n_step=3", ""},
		{iql + still, ""},
		{iql + still + " algorithm.n_step=3", "warning: algorithm.n_step 3 adds up rewards of successive steps, and " +
			"steps are missing after "},
		{iql + still + " actor.model.num_action_chunks=2", "warning: actor.model.num_action_chunks 2 adds up rewards"},
		{iql + all + " algorithm.reward_type=action_level actor.model.num_action_chunks=2",
			"algorithm.reward_type: action_level: expected chunk_level (loss_type offline_iql learns from whole"},
		{bc + all + " algorithm.demo_buffer.validation_share=0.3", ""},
		{bc + one + " algorithm.demo_buffer.validation_share=0.3", "algorithm.demo_buffer.validation_share: 0.3: " +
			"expected a share that sets whole episodes aside and leaves others: of the "},
	} {
		args := append([]string{"check", "-c", file, "env.train.external.command=" + sim.connect()},
			strings.Fields(tc.overrides)...)
		if !strings.HasPrefix(tc.overrides, external) {
			args = append(args[:3], args[4:]...)
		}
		_, stdout, stderr := runWith(t, sim.registries(), args...)
		if text := stdout + stderr; !strings.Contains(text, tc.want) ||
			tc.want == "" && (strings.Contains(text, "warning:") || !strings.Contains(text, "verdict: runs\n")) {
			t.Errorf("check %s: want %q\n%s", tc.overrides, tc.want, text)
		}
	}
}

// TestCheckMeetsSimulators: check reads what a simulator says about its state, and lets it make a step.
func TestCheckMeetsSimulators(t *testing.T) {
	file := filepath.Join(t.TempDir(), "job.yaml")
	writeFile(t, file, keyJob)
	check := func(command string) (code int, text string) {
		code, out, errs := run(t, "check", "-c", file, "env.train.env_type=external", "runner.save_interval=1",
			"env.train.max_episode_steps=0", "env.train.external.command="+command)
		return code, out + errs
	}
	const forgets = "cannot save its state"
	t.Setenv(asProgram, "1")
	serve := os.Args[0] + " bridge serve -c " + file + " env.train.env_type=Pendulum-v1"
	if code, text := check(serve); code != loop.ExitOK || strings.Contains(text, forgets) {
		t.Errorf("a simulator that saves its state: code %d\n%s", code, text)
	}
	t.Setenv(asProgram, "")
	if code, text := check(standIn{obs: 2, act: 2}.connect()); code != loop.ExitOK ||
		strings.Count(text, forgets) != 1 {
		t.Errorf("a simulator that does not: code %d\n%s", code, text)
	}
	code, text := check(standIn{obs: 2, act: 2, limit: 13}.connect())
	if code != loop.ExitConfig || !strings.Contains(text, "expected a simulator that makes a step: ") ||
		!strings.Contains(text, "no step ends") {
		t.Errorf("a simulator that fails: code %d\n%s", code, text)
	}
}

// TestNoteOfChoices: check warns of deviations that choices do not have.
func TestNoteOfChoices(t *testing.T) {
	code, out, errs := run(t, "check", "-c", "../../configs/cartpole_ppo.yaml", "actor.model.init_log_std=-1")
	if want := "warning: actor.model.init_log_std: no effect, because choices"; code != loop.ExitOK ||
		strings.Count(out, want) != 1 {
		t.Errorf("code %d, expected %q once:\n%s%s", code, want, out, errs)
	}
}
