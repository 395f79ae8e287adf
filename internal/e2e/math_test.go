package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
)

// TestMathRewards: prompts of a file with solutions are written by a chat template, and too long prompts are left out
// and counted. The verifier grades the answers. Answers of an untrained model cannot be parsed, so they get
// -reward_scale.
func TestMathRewards(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	local.ok(t, dir, 0, "data", "problems", "--out", "data", "--train", "40", "--test", "4", "--steps", "1-3")
	job := strings.NewReplacer("max_steps: 12", "max_steps: 2", "seq_length: 16", "seq_length: 90",
		"val_check_interval: 4", "val_check_interval: 2",
		"save_interval: 4", "save_interval: -1", "max_prompt_length: 9",
		"max_prompt_length: 45, answer_key: solutions, apply_chat_template: true",
		"group_size: 16", "group_size: 2").Replace(reasoning) +
		"reward: {reward_type: math, reward_scale: 5, format_reward: 0.5}\n"
	writeFile(t, dir, "job.yaml", components("actor: %s", "'0:0-1'")+job)
	r := local.run(t, dir, 0, "check", "-c", "job.yaml")
	if r.code == 0 || !strings.Contains(r.stderr, "data.max_prompt_length: 45: expected at least") {
		t.Errorf("exit code %d, want 2:\n%s%s", r.code, r.stdout, r.stderr)
	}
	said := local.ok(t, dir, 0, "check", "-c", "job.yaml", "data.filter_prompt_by_length=true").stdout
	if !strings.Contains(said, "left out: ") || !strings.Contains(said, " prompts that are too long") {
		t.Errorf("check does not count what is left out:\n%s", said)
	}
	local.ok(t, dir, 0, "-c", "job.yaml", "data.filter_prompt_by_length=true")
	m := readMetrics(t, filepath.Join(dir, "logs", "run"))
	for name, want := range map[string]float64{"rollout/rewards": -5, "rollout/unparsable": 1, "rollout/accuracy": 0,
		"rollout/uninformative_groups": 1} {
		for _, x := range m.values(t, name) {
			test.Equal(t, x, want, "%s", name)
		}
	}
	if x := m.values(t, "eval/unparsable"); len(x) != 1 || x[0] != 1 {
		t.Errorf("eval/unparsable is %v", x)
	}
}
