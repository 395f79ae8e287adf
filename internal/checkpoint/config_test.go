package checkpoint_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/test"
)

// written is a resolve function that returns the checkpoint's configuration unchanged.
func written(stored []byte) ([]byte, error) { return stored, nil }

const stored = `
runner: {max_steps: 100, logger: {log_path: ../results, logger_backends: [tensorboard]}, seed: null}
algorithm: {gamma: 0.99, clip: 1, adv_type: gae}
env: {train: {wrappers: [frame_stack, scale]}}
`

// savedConfig returns a checkpoint of a job with this stored configuration.
func savedConfig(t *testing.T) *checkpoint.Checkpoint {
	t.Helper()
	s := open(t, t.TempDir(), 0)
	dir := test.Must(s.Save(checkpoint.Info{Step: 1, Config: []byte(stored)}))(t)
	c := test.Must(checkpoint.Load(dir))(t)
	return c
}

// TestCheckConfig: an error names the differences from the stored configuration, except for keys that may change.
func TestCheckConfig(t *testing.T) {
	cases := []struct {
		name     string
		from, to string
		want     string // lines of the error after the first; none: the same configuration
	}{
		{"same", "", "", ""},
		{"written otherwise", "{gamma: 0.99, clip: 1, adv_type: gae}",
			"{adv_type: \"gae\", clip: 1.0, gamma: 99e-2} # the same", ""},
		{"may change", "max_steps: 100", "max_steps: 200", ""},
		{"below what may change", "[tensorboard]", "[]", ""},
		{"value", "0.99", "0.9", "  algorithm.gamma: 0.99 then, 0.9 now"},
		{"two", "gamma: 0.99, clip: 1", "gamma: 1, clip: 2",
			"  algorithm.clip: 1 then, 2 now\n  algorithm.gamma: 0.99 then, 1 now"},
		{"list", "[frame_stack, scale]", "[frame_stack]", "  env.train.wrappers.1: \"scale\" then, (not set) now"},
		{"new key", "clip: 1", "clip: 1, lambda: 0.95", "  algorithm.lambda: (not set) then, 0.95 now"},
		{"type", "adv_type: gae", "adv_type: {gae: 1}",
			"  algorithm.adv_type: \"gae\" then, (not set) now\n  algorithm.adv_type.gae: (not set) then, 1 now"},
		{"null", "seed: null", "seed: 1", "  runner.seed: null then, 1 now"},
		{"a name that only starts like one that may change", "seed: null}", "seed: null, max_steps_per_rollout: 3}",
			"  runner.max_steps_per_rollout: (not set) then, 3 now"},
	}
	c := savedConfig(t)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			current := strings.Replace(stored, tc.from, tc.to, 1)
			if tc.from != "" && current == stored {
				t.Fatalf("the case changes nothing")
			}
			err := c.CheckConfig([]byte(current), written, "runner.max_steps", "runner.logger")
			if tc.want == "" {
				if err != nil {
					t.Errorf("got %v, want no difference", err)
				}
				return
			}
			var differs *checkpoint.ConfigError
			if !errors.As(err, &differs) {
				t.Fatalf("got %v, want a ConfigError", err)
			}
			if _, lines, _ := strings.Cut(err.Error(), "\n"); lines != tc.want {
				t.Errorf("got\n%s\nwant\n%s", lines, tc.want)
			}
		})
	}
}

// TestCheckConfigOfNoYAML: if a configuration does not parse, the error says which one it is.
func TestCheckConfigOfNoYAML(t *testing.T) {
	if err := savedConfig(t).CheckConfig([]byte("a: ["), written); err == nil ||
		!strings.Contains(err.Error(), "configuration of this job") {
		t.Errorf("YAML that does not parse: %v", err)
	}
}

// TestCheckConfigResolved: a checkpoint's configuration is resolved by this program before the comparison, if that is
// possible.
func TestCheckConfigResolved(t *testing.T) {
	s := open(t, t.TempDir(), 0)
	dir := test.Must(s.Save(checkpoint.Info{Step: 1, Config: []byte("gamma: 0.9\n")}))(t)
	c := test.Must(checkpoint.Load(dir))(t)
	withDefault := func(stored []byte) ([]byte, error) { return append(stored, "tau: 0.005\n"...), nil }
	test.Check(t, c.CheckConfig([]byte("gamma: 0.9\ntau: 0.005\n"), withDefault), "a key added since, with its default")
	var differs *checkpoint.ConfigError
	if err := c.CheckConfig([]byte("gamma: 0.9\ntau: 1\n"), withDefault); !errors.As(err, &differs) ||
		len(differs.Differences) != 1 {
		t.Errorf("a key added since, with another value: %v", err)
	}
	unknown := func([]byte) ([]byte, error) { return nil, errors.New("no such key") }
	if err := c.CheckConfig([]byte("gamma: 1\n"), unknown); !errors.As(err, &differs) ||
		differs.Differences[0].Key != "gamma" {
		t.Errorf("what cannot be resolved counts as written: %v", err)
	}
}
