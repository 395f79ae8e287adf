package config

import (
	"embed"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/reward"
	"github.com/rlinf/rlinf/reward/answer"
)

//go:embed config.go language.go layout.go weights.go
var source embed.FS

// A ManualEntry is the manual's entry for a key of the configuration.
type ManualEntry struct {
	// Name is the dotted key. "[]" after a name stands for each item of a list, and <name> for a name that the user
	// chooses.
	Name    string
	Type    string // in words; "section", "map" or "list of sections" if it contains keys
	Default string // as in YAML; "" for none
	From    string // the key whose value is the default; "" if there is none
	Doc     string // the meaning of the key
	Ours    bool   // RLinf does not have this key
	Section bool   // the key contains keys
	Part    string // the only part with this key, such as "language models"; "" if all parts have it
	Like    string // the key where the same meaning is explained; "" if there is none
}

// Reference returns every key that a configuration with the parts of reg may have, in the order of the sections. It
// omits old names, and the keys of RLinf that have no effect.
func Reference(reg Registries) []ManualEntry {
	comments := readComments()
	var keys []ManualEntry
	var ours []string // sections that RLinf does not have
	fields := config.Fields(Default())
	field := map[string]string{}     // the field of each key
	explained := map[string]string{} // the key at which each field is explained
	for _, f := range fields {
		name := fmt.Sprint(f.Owner, ".", f.Name)
		field[f.Key] = name
		if other := explained[name]; other == "" || field[inherited(other)] == name {
			explained[name] = f.Key
		}
	}
	for _, f := range fields {
		text, _ := comments.Of(f.Owner, f.Name)
		k := ManualEntry{Name: f.Key, Type: typeName(f.Type), Doc: text.Text, Section: f.Section,
			From: inherited(f.Key)}
		k.Ours = text.Ours || slices.ContainsFunc(ours, func(s string) bool { return strings.HasPrefix(f.Key, s) })
		if k.Ours && f.Section {
			ours = append(ours, f.Key+".", f.Key+"[]")
		}
		if !f.Section && !strings.Contains(strings.ToLower(k.Doc), "no default") {
			k.Default = defaultText(f.Value)
		}
		if f.Key == "runner.logger.experiment_name" {
			k.Default = "" // depends on the file
		}
		if like := explained[field[f.Key]]; like != f.Key {
			k.Like = like
		}
		keys = append(keys, k)
	}
	for _, o := range reg.ownKeys() {
		last := 0
		for i, k := range keys {
			if strings.HasPrefix(k.Name, o.section+".") {
				last = i
			}
		}
		keys = slices.Insert(keys, last+1, o.ManualEntry)
	}
	return keys
}

// readComments reads the comments of all structs of the configuration.
func readComments() *config.Comments {
	c := new(config.Comments)
	for _, p := range []struct {
		in    reflect.Type // a struct of the package
		files embed.FS
	}{
		{reflect.TypeFor[Config](), source},
		{reflect.TypeFor[algo.Config](), algo.Source},
		{reflect.TypeFor[env.Config](), env.Source},
		{reflect.TypeFor[policy.Config](), policy.Source},
		{reflect.TypeFor[reward.Config](), reward.Source},
		{reflect.TypeFor[answer.Config](), answer.Source},
	} {
		if err := c.Read(p.in.PkgPath(), p.files); err != nil {
			panic(fmt.Sprintf("roles: %v", err)) // the compiler has read these files
		}
	}
	return c
}

// inherited returns the name of the key whose value is the default of key, or "" if there is none. inherited must agree
// with Config.derive.
func inherited(key string) string {
	switch key {
	case "env.train.group_size":
		return "algorithm.group_size"
	case "env.train.seed", "actor.seed":
		return "runner.seed"
	case "data.seed":
		return "actor.seed"
	case "algorithm.entropy_type":
		return "algorithm.logprob_type"
	case "env.eval.max_steps_per_rollout_epoch", "env.eval.rollout_epoch", "env.eval.auto_reset",
		"env.eval.group_size", "env.eval.use_fixed_reset_state_ids", "env.eval.instruction_mix",
		"env.eval.use_rel_reward", "env.eval.reward_coef", "env.eval.reward_clip": // keys of training alone
		return ""
	}
	if rest, ok := strings.CutPrefix(key, "env.eval."); ok && !strings.HasPrefix(rest, "video_cfg") &&
		!strings.HasPrefix(rest, "data_collection") && !strings.HasPrefix(rest, "person") {
		return "env.train." + rest
	}
	for _, optim := range []string{"actor.critic_optim.", "algorithm.entropy_tuning.optim."} {
		if rest, ok := strings.CutPrefix(key, optim); ok {
			return "actor.optim." + rest
		}
	}
	return ""
}

// typeName describes the values of a key whose field has type t.
func typeName(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return "duration"
	case reflect.TypeFor[Bytes]():
		return "bytes"
	case reflect.TypeFor[Ranks]():
		return "ranks"
	case reflect.TypeFor[config.Words](), reflect.TypeFor[env.Command]():
		return "words"
	case reflect.TypeFor[env.Mix]():
		return "names or map"
	}
	if strings.HasPrefix(t.Name(), "Map[") {
		return "map"
	}
	return kindName(t)
}

// kindName is typeName for types without a special form in YAML. Users' own keys may have any type.
func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "boolean"
	case reflect.String:
		return "text"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "integer"
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer ≥ 0"
	case reflect.Float32, reflect.Float64:
		return "number"
	case reflect.Struct:
		return "section"
	case reflect.Slice:
		if item := kindName(t.Elem()); slices.Contains([]string{"integer", "number", "text", "section"}, item) {
			return "list of " + item + "s"
		}
		return "list"
	case reflect.Map:
		return "map"
	case reflect.Pointer:
		return kindName(t.Elem())
	}
	return "any value"
}

// defaultText returns a default as YAML. It returns "" for an empty text or list.
func defaultText(v any) string {
	switch x := v.(type) {
	case time.Duration:
		text := strings.TrimSuffix(x.String(), "m0s")
		if text != x.String() {
			text += "m"
		}
		return text
	case Bytes:
		return fmt.Sprintf("%dMB", x>>20)
	}
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.String, reflect.Slice, reflect.Map:
		if value.Len() == 0 {
			return ""
		}
	case reflect.Pointer, reflect.Invalid:
		return ""
	}
	return config.InLine(v)
}

type ownKey struct {
	ManualEntry
	section string
}

// ownKeys returns the keys of language models, and the keys of all users' own parts in reg.
func (reg Registries) ownKeys() []ownKey {
	var all []ownKey
	add := func(own params.Own, part string, sections ...string) {
		for _, section := range sections {
			for _, k := range own.Keys() {
				name := section + "." + k.Name
				all = append(all, ownKey{section: section,
					ManualEntry: ManualEntry{Name: name, Doc: k.Doc, From: inherited(name),
						Type: typeName(reflect.TypeOf(k.Value)), Default: defaultText(k.Value), Ours: true,
						Part: part}})
			}
		}
	}
	add(languageModel(string(lm.Families[0])), "language models", "actor.model")
	add(classifier(), "model_type resnet", "actor.model")
	add(reward.DefaultImages(), "model_type resnet", "reward.model")
	for i := range all {
		_, known := WithoutEffect(all[i].Name) // RLinf has the key, too
		all[i].Ours = !known
	}
	for _, pair := range reg.Algorithms.Pairs() {
		add(reg.Algorithms.Own(pair[0], pair[1]), "loss_type "+pair[1], "algorithm")
	}
	for _, name := range reg.Policies.Names() {
		sections := []string{"actor.model", "reward.model"}
		if name == cnnPolicy { // a network of rewards has no backbone
			sections = sections[:1]
		}
		add(reg.Policies.Own(name), "model_type "+name, sections...)
	}
	for _, name := range reg.Envs.Names() {
		add(reg.Envs.Own(name), "environment "+name, "env.train.init_params", "env.eval.init_params")
	}
	if reg.Rewards != nil {
		for _, name := range reg.Rewards.Names() {
			add(reg.Rewards.Own(name), "reward_type "+name, "reward")
		}
	}
	rules := reg.AnswerRules()
	for _, name := range rules.Names() {
		add(rules.Own(name), "reward_type "+name, "reward")
	}
	return all
}

// WithoutEffect reports whether a key of RLinf has no effect here. If the missing effect changes training, note says
// what happens instead. Otherwise note is "".
func WithoutEffect(key string) (note string, ok bool) {
	for _, k := range knownKeys() {
		if k.Covers(key) {
			return k.Instead, true
		}
	}
	return "", false
}

// KeysWithoutEffect returns RLinf's keys that have no effect here. In a key, "*" stands for any one name, and "**" at
// the end for all names that may follow.
func KeysWithoutEffect(reg Registries) []string {
	var fields []string
	for _, k := range Reference(reg) {
		fields = append(fields, k.Name)
	}
	var keys []string
	for _, k := range knownKeys() {
		if !slices.Contains(fields, k.Key) && !slices.Contains(keys, k.Key) {
			keys = append(keys, k.Key)
		}
	}
	return keys
}

// An OldName is a name that a key had in RLinf before v0.1.
type OldName struct{ Old, Today string }

// OldNames returns the old names that can still be used.
func OldNames() []OldName {
	var names []OldName
	for _, a := range aliases() {
		names = append(names, OldName{a.Old, strings.Join(a.New, ", ")})
	}
	return names
}
