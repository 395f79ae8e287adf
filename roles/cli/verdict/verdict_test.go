package verdict

import (
	"errors"
	"slices"
	"strings"
	"testing"

	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/config"
)

func TestRemedy(t *testing.T) {
	cfg := config.Default()
	cfg.Actor.GlobalBatchSize = 64
	for _, tc := range []struct {
		e    yaml.FieldError
		want string
	}{
		{yaml.FieldError{Key: "env.train.auto_reset", Want: "expected true (loss_type embodied_sac)"},
			"env.train.auto_reset=true"},
		{yaml.FieldError{Key: "actor.model.num_action_chunks", Want: "expected 1 (experts)"},
			"actor.model.num_action_chunks=1"},
		{yaml.FieldError{Key: "algorithm.gamma", Want: "expected a number in [0, 1]"}, ""},
		{yaml.FieldError{Key: "a.b", Want: "expected a multiple of 4 (num_action_chunks)"}, ""},
		{yaml.FieldError{Key: "env.eval.total_num_envs", Value: "null",
			Want: "expected a value; without the key it is 8"}, "env.eval.total_num_envs=8"},
		{yaml.FieldError{Key: "actor.global_batch_size", Want: "expected a divisor of the samples of an iteration, " +
			"80 (10 steps × 8 environments)"}, "actor.global_batch_size=16"},
		{yaml.FieldError{Key: "actor.global_batch_size", Want: "expected a multiple of 48 (micro_batch_size 4 × 12 " +
			"actors)"}, "actor.global_batch_size=48"},
		{yaml.FieldError{Key: "actor.global_batch_size", Want: "expected a multiple of 16 (x) that divides the " +
			"samples of an iteration, 96 (y)"}, "actor.global_batch_size=48"},
		{yaml.FieldError{Key: "actor.global_batch_size", Want: "expected a multiple of 100 (x) that divides the " +
			"samples of an iteration, 800 (y)"}, "actor.global_batch_size=100"},
		{yaml.FieldError{Key: "actor.global_batch_size", Want: "expected a multiple of 7 (x) that divides the " +
			"samples of an iteration, 80 (y)"}, ""},
		{yaml.FieldError{Key: "algorithm.replay_buffer.sample_window_size",
			Want: "expected at most 1259: the replay buffers"}, "algorithm.replay_buffer.sample_window_size=100"},
		{yaml.FieldError{Key: "actor.optim.lr", Value: "'1e-4'", Want: "expected a number; drop the quotes: 1e-4"},
			"actor.optim.lr=1e-4"},
		{yaml.FieldError{Want: "no such file"}, ""},
	} {
		test.Equal(t, strings.Join(remedy(cfg, &tc.e), " "), tc.want, "%v", &tc.e)
	}
}

// TestJudge: remedies are tried again if they reveal another mistake. A remedy that does not help leaves the mistake.
func TestJudge(t *testing.T) {
	cfg := config.Default()
	cfg.Cluster.ComponentPlacement = yaml.Map[config.PlacementConfig]{{Key: "actor"}}
	one := &yaml.FieldError{Key: "a", Want: "expected 1 (b)"}
	two := &yaml.FieldError{Key: "c", Want: "expected 2 (d)"}
	examine := func(more []string, standIn bool) (*config.Config, error) {
		switch {
		case standIn:
			t.Error("a stand-in for a simulator that is here")
		case !slices.Contains(more, "a=1"):
			return cfg, one
		case !slices.Contains(more, "c=2"):
			return cfg, two
		}
		return cfg, nil
	}
	v := Judge(cfg, one, examine)
	if got, want := v.Text("my file.yaml", []string{"a=3", "x=y"}),
		"verdict: runs with these overrides\n  rlinf -c 'my file.yaml' x=y a=1 c=2"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	v = Judge(cfg, errors.Join(one, two), func([]string, bool) (*config.Config, error) { return cfg, two })
	if len(v.Left) != 1 || v.Headline() != "does not run: change c" {
		t.Errorf("%+v", v)
	}
	if v = Judge(cfg, nil, examine); v.Text("f", nil) != "verdict: runs" {
		t.Errorf("%+v", v)
	}
	hidden := Verdict{Own: []string{"m=FOLDER"}, Left: []*yaml.FieldError{{Want: "node 0 needs 9 MiB"}}}
	if got := hidden.Text("f", nil); !strings.Contains(got, "\n  node 0 needs 9 MiB") {
		t.Errorf("the mistake behind the stand-ins is not named: %s", got)
	}
	many := Verdict{Left: []*yaml.FieldError{{Key: "a"}, {Key: "b"}, {Key: "a"}, {Key: "c"}, {Key: "d"}}}
	if got := many.Headline(); got != "does not run: change 4 keys" {
		t.Error(got)
	}
	if v = Judge(nil, errors.New("f: no such file"), examine); len(v.Left) != 1 ||
		v.Headline() != "does not run: one mistake cannot be fixed by an override" {
		t.Errorf("%+v", v)
	}
}
