package config

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/rlinf/rlinf/internal/test"
)

// TestFields: the keys are those that Decode can set, also below lists and maps.
func TestFields(t *testing.T) {
	cfg := defaults()
	var names []string
	for _, f := range Fields(&cfg) {
		names = append(names, f.Key)
	}
	for _, key := range keysOf(reflect.ValueOf(&cfg)) {
		if !slices.Contains(names, key) {
			t.Errorf("%s is decoded, and is no field", key)
		}
	}
	for _, key := range []string{"run", "run.group_size", "model.hidden", "places", "places.<name>.count"} {
		if !slices.Contains(names, key) {
			t.Errorf("no field %s in %q", key, names)
		}
	}
}

// TestComments: field names in comments become keys, fields share the comment above them, and marks are removed.
func TestComments(t *testing.T) {
	var c Comments
	err := c.Read("github.com/rlinf/rlinf/internal/config", fstest.MapFS{"config.go": {Data: []byte(`package config

// A run is what it is.
type run struct {
	// Epochs is the number of
	// Passes; see Level and Hidden. (+)
	Epochs int ` + "`yaml:\"max_epochs\"`" + `
	Level int ` + "`yaml:\"level\"`" + `

	Mode string ` + "`yaml:\"mode\"`" + `
	Seed uint64 ` + "`yaml:\"seed\"`" + ` // of MaxRate
}

type other struct {
	MaxRate float32 ` + "`yaml:\"max_rate\"`" + `
	Hidden int ` + "`yaml:\"hidden\"`" + `
}
`)}})
	test.OK(t, err)
	for field, want := range map[string]Comment{
		"Epochs": {"max_epochs is the number of Passes; see level and Hidden.", true},
		"Level":  {"max_epochs is the number of Passes; see level and Hidden.", true},
		"Seed":   {"of max_rate", false},
		"Mode":   {},
	} {
		if got, ok := c.Of(reflect.TypeFor[run](), field); got != want || ok != (want.Text != "") {
			t.Errorf("%s: got %+v, %v, want %+v", field, got, ok, want)
		}
	}
	if err := c.Read("p", fstest.MapFS{"p.go": {Data: []byte("package")}}); err == nil {
		t.Error("a broken file was read")
	}
}

// TestLikeliest: a key without its first sections leads to the complete key.
// TestCorrection: a correction is a key with the same meaning in another program, a neighbour with a longer name, or
// the key of that name whose sections are most alike.
func TestCorrection(t *testing.T) {
	keys := strings.Fields("runner.save_interval runner.max_steps algorithm.temperature env.train.video_cfg.num_envs " +
		"env.train.total_num_envs rollout.sampling_params.temperature actor.optim.lr")
	synonyms := map[string]string{"learning_rate": "actor.optim.lr", "save_steps": "runner.save_interval"}
	for key, want := range map[string]string{
		"actor.optim.learning_rate": "lr", "learning_rate": "actor.optim.lr", "runner.save_steps": "save_interval",
		"env.train.num_envs": "total_num_envs", "rollout.temperature": "rollout.sampling_params.temperature",
		"runner.zz": "", "env.eval.temperature": "algorithm.temperature",
	} {
		s := siblings{all: keys}
		for _, k := range keys {
			section := key[:strings.LastIndexByte(key, '.')+1]
			if name, ok := strings.CutPrefix(k, section); ok && section != "" && !strings.Contains(name, ".") {
				s.names = append(s.names, name)
			}
		}
		test.Equal(t, s.correction(&node{}, key, synonyms), want, "%s", key)
	}
}

func TestLikeliest(t *testing.T) {
	keys := strings.Fields("cluster.num_nodes runner.seed runner.max_steps algorithm.gamma " +
		"algorithm.entropy_tuning.optim.lr actor.seed actor.optim.lr actor.model.hidden_sizes")
	for key, want := range map[string]string{
		"lr": "actor.optim.lr", "optim.lr": "actor.optim.lr", "seed": "runner.seed", "gama": "algorithm.gamma",
		"max_step":       "runner.max_steps",
		"algorithm.gama": "algorithm.gamma", "runer.seed": "runner.seed", "hidden_size": "actor.model.hidden_sizes",
		"zz": "", "speed_of_light": "", "model.depth": "",
	} {
		test.Equal(t, Likeliest(key, keys), want, "%s", key)
	}
}
