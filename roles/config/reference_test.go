package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env/all"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/reward"
)

func builtin() Registries {
	return Registries{Envs: all.Registry(), Policies: policy.Builtin(), Algorithms: algo.Builtin(),
		Rewards: reward.Builtin()}
}

// TestReferenceExplainsEveryKey: every key has a meaning, and a place in the file.
func TestReferenceExplainsEveryKey(t *testing.T) {
	keys, given := Reference(builtin()), []string(nil)
	if len(keys) < 250 {
		t.Errorf("%d keys, want all", len(keys))
	}
	for _, k := range keys {
		if k.Doc == "" {
			t.Errorf("%s has no meaning. Write a comment at its field. If it has one, its file is not read: name the "+
				"file "+
				"in the package's source.go, and the package in readComments", k.Name)
		}
		if strings.Contains(k.Doc, "(+)") {
			t.Errorf("%s: %s", k.Name, k.Doc)
		}
		if !strings.ContainsAny(k.Name, "[<") {
			given = append(given, "++"+k.Name+"=null")
		}
	}
	unread := map[string]int{}
	for _, chosen := range [][]string{ // networks with keys of their own
		{"++actor.model.model_type=" + string(lm.Families[0]), "++reward.model.model_type=resnet"},
		{"++actor.model.model_type=resnet", "++runner.task_type=sft"},
	} {
		_, _, err := Load(builtin(), "testdata/cartpole.yaml", slices.Concat(given, chosen), false)
		for _, e := range config.FieldErrors(err) {
			if strings.Contains(e.Want, "unknown") || strings.Contains(e.Want, "which is not chosen") {
				unread[e.Key]++
			}
		}
	}
	for key, n := range unread {
		if n == 2 {
			t.Errorf("the reference has a key that is not read: %s", key)
		}
	}
}

// TestReferenceSays checks the entries of a few keys of each form.
func TestReferenceSays(t *testing.T) {
	keys := map[string]ManualEntry{}
	for _, k := range Reference(builtin()) {
		keys[k.Name] = k
	}
	for name, want := range map[string]ManualEntry{
		"algorithm.gamma": {Type: "number", Default: "1",
			Doc: "gamma is the discount γ in [0, 1], per chunk or per action (see reward_type). Default 1."},
		"runner.seed": {Type: "integer ≥ 0", Default: "1", Ours: true},
		"runner.max_steps": {Type: "integer", Default: "-1",
			Doc: "max_epochs and max_steps bound the number of iterations"},
		"comm.stall_timeout":       {Type: "duration", Default: "1m", Ours: true},
		"actor.seed":               {Type: "integer ≥ 0", Default: "0", From: "runner.seed"},
		"actor.model.hidden_sizes": {Type: "list of integers", Default: "[64, 64]", Ours: true},
		"actor.optim.lr":           {Type: "number"},
		"env.eval.group_size":      {Type: "integer", Default: "1", Like: "env.train.group_size"},
		"env.eval.action_repeat": {Type: "integer", Default: "1", From: "env.train.action_repeat", Ours: true,
			Like: "env.train.action_repeat"},
		"env.train.task.rewards": {Type: "list of sections", Section: true, Ours: true},
		"env.train.task.rewards[].joint": {Type: "text", Ours: true,
			Like: "env.train.task.observations[].joint"},
		"cluster.component_placement":                  {Type: "map", Section: true},
		"cluster.component_placement.<name>.placement": {Type: "text"},
		"comm.compression":                             {Type: "text", Default: "none", Ours: true},
		"weight_syncer.bucket.bucket_size":             {Type: "bytes", Default: "512MB"},
		"runner.logger.logger_backends":                {Type: "words", Default: "[tensorboard]"},
	} {
		got, ok := keys[name]
		want.Name = name
		if strings.HasPrefix(got.Doc, want.Doc) {
			want.Doc = got.Doc
		}
		if !ok || got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
	}
}

// TestInheritedDefaults: keys that are not given have what the reference says: the value of another
// key, or their own default.
func TestInheritedDefaults(t *testing.T) {
	c := Default()
	change(reflect.ValueOf(c).Elem())
	c.Algorithm.EntropyType = "" // its own word for the other key's
	before := values(c)
	tree := test.Must(config.Parse("empty", []byte("runner: {}"), config.Options{}))(t)
	c.found = tree.Decode(c)
	c.derive(false, false)
	after, inherits := values(c), 0
	alone := map[string]string{ // what evaluations do not inherit
		"env.eval.max_steps_per_rollout_epoch": "0", "env.eval.rollout_epoch": "1", "env.eval.auto_reset": "false",
		"env.eval.group_size": "1", "env.eval.use_fixed_reset_state_ids": "false", "env.eval.instruction_mix": "",
		"env.eval.person.share": "0", "env.eval.person.episodes": "0",
		"env.eval.use_rel_reward": "false", "env.eval.reward_coef": "1", "env.eval.reward_clip": "0",
	}
	for name, got := range after {
		want := before[name]
		if from := inherited(name); from != "" {
			want = after[from]
			inherits++
		}
		if strings.HasPrefix(name, "env.eval.video_cfg.") || strings.HasPrefix(name, "env.eval.data_collection.") {
			continue // has the defaults of its own again
		}
		if of, ok := alone[name]; ok {
			want = of
		}
		if got != want {
			t.Errorf("%s is %s, want %s (inherited from %q)", name, got, want, inherited(name))
		}
	}
	if inherits < 30 {
		t.Errorf("%d keys inherit their default", inherits)
	}
}

// change gives every number, text and boolean below v a new value, each a different one.
func change(v reflect.Value) {
	n := 0
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		n++
		switch v.Kind() {
		case reflect.Struct:
			for f, value := range v.Fields() {
				if f.IsExported() {
					walk(value)
				}
			}
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.String:
			v.SetString(fmt.Sprintf("other%d", n))
		case reflect.Int, reflect.Int64:
			v.SetInt(int64(n))
		case reflect.Uint64:
			v.SetUint(uint64(n))
		case reflect.Float32, reflect.Float64:
			v.SetFloat(float64(n))
		}
	}
	walk(v)
}

// values returns the values of all keys of c.
func values(c *Config) map[string]string {
	all := map[string]string{}
	for _, f := range config.Fields(c) {
		if !f.Section {
			all[f.Key] = fmt.Sprint(f.Value)
		}
	}
	return all
}
