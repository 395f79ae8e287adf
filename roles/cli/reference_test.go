package cli

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/cli/manual"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
)

var update = flag.Bool("update", false, "write the generated pages of docs/reference anew")

const reference = "../../docs/reference/"

// TestReference: the pages of docs/reference are those that this program generates.
func TestReference(t *testing.T) {
	reg, code := rolestest.Registries(), 0
	for name, want := range map[string]string{
		"config.md":          manual.Markdown(reg, config.Reference(reg)),
		"config.schema.json": string(manual.Schema(reg)),
		"cli.md":             manual.CommandPage(newApp(reg, tasks(), session.UserProgram{}, nil, &code)),
	} {
		if *update {
			writeFile(t, reference+name, want)
		}
		got, err := os.ReadFile(reference + name)
		if err != nil || string(got) != want {
			t.Errorf("docs/reference/%s is not what the program says (%v). Write it anew and look at the "+
				"difference: %s", name, err, manual.Regenerate)
		}
	}
}

// TestReferenceHasEveryKey: what a configuration accepts is on the page, and in the schema.
func TestReferenceHasEveryKey(t *testing.T) {
	page := readFile(t, reference+"config.md")
	keys := 0
	each := func(key string) {
		keys++
		if !explains(page, key) {
			t.Errorf("docs/reference/config.md says nothing of %s; %s", key, manual.Regenerate)
		}
	}
	var resolved map[string]any
	test.OK(t, yaml.Unmarshal(config.Default().Resolved(), &resolved))
	eachKey(resolved, "", each)
	for _, key := range config.KeysWithoutEffect(rolestest.Registries()) {
		each(key)
	}
	for _, o := range config.OldNames() {
		each(o.Old)
	}
	if keys < 400 {
		t.Errorf("%d keys", keys)
	}
}

// shares matches a sentence of the page about keys, or sections, that another section explains. It may have names.
var shares = regexp.MustCompile("(All keys|All other keys|These keys|Sections)[^\n`]* in `([^`]+)`(.*)")

// explains reports whether the page about keys has a row for a key, or refers to another key that has one.
func explains(page, key string) bool {
	if strings.Contains(page, "`"+key+"`") || strings.Contains(page, "`"+key+"[]`") ||
		strings.Contains(page, "\n"+key+"\n") {
		return true
	}
	for section := key; strings.Contains(section, "."); {
		section = section[:strings.LastIndexByte(section, '.')]
		_, text, found := strings.Cut(page, "## `"+section+"`")
		text, _, _ = strings.Cut(text, "\n#")
		below := key[len(section)+1:]
		name, _, deeper := strings.Cut(below, ".")
		for _, m := range shares.FindAllStringSubmatch(text, -1) {
			named := strings.Contains(m[3], "`"+strings.TrimSuffix(name, "[]")+"`")
			if found && (named || !deeper && strings.HasPrefix(m[1], "All")) && explains(page, m[2]+"."+below) {
				return true
			}
		}
	}
	return false
}

// eachKey calls f for the keys of a YAML document that have no further ones below.
func eachKey(v any, key string, f func(key string)) {
	m, ok := v.(map[string]any)
	if !ok || len(m) == 0 && strings.HasSuffix(key, "component_placement") {
		if ok {
			key += ".<name>"
		}
		f(key)
		return
	}
	for name, below := range m {
		eachKey(below, strings.TrimPrefix(key+"."+name, "."), f)
	}
}

// TestSchemaAccepts: the configurations of the project follow the schema, and mistakes do not.
func TestSchemaAccepts(t *testing.T) {
	var root map[string]any
	test.OK(t, json.Unmarshal(manual.Schema(rolestest.Registries()), &root))
	files, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(files) < 30 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		text := readFile(t, file)
		var doc any
		test.OK(t, yaml.Unmarshal([]byte(text), &doc))
		if wrong := follows(root, doc, ""); wrong != "" {
			t.Errorf("%s: %s", file, wrong)
		}
	}
	for text, want := range map[string]string{
		"runner: {max_step: 3}":                          ".runner.max_step: no such key",
		"runner: {max_steps: many}":                      ".runner.max_steps: many",
		"runner: {max_steps: '${a.b}'}":                  "",
		"env: {train: {task: {rewards: [{weigth: 1}]}}}": ".env.train.task.rewards.0.weigth: no such key",
		"cluster: {component_placement: {actor: 0-3, env: {node_group: a, placement: 1}}}": "",
		"rollout: {model: {precision: fp32}, enable_offload: true}":                        "",
		"algorithm: {gamma: [1]}": ".algorithm.gamma: [1]",
	} {
		var doc any
		test.OK(t, yaml.Unmarshal([]byte(text), &doc))
		test.Equal(t, follows(root, doc, ""), want, "%s", text)
	}
}

// follows returns where v does not follow a schema of the kinds that ours has; "" for nowhere.
func follows(s map[string]any, v any, key string) string {
	if all, ok := s["anyOf"].([]any); ok && !followsAny(all, v, key) {
		return fmt.Sprintf("%s: %v", key, v)
	}
	if types, ok := s["type"].([]any); ok {
		is := schemaType(v)
		if !slices.Contains(types, any(is)) && !(is == "integer" && slices.Contains(types, any("number"))) {
			return fmt.Sprintf("%s: %v", key, v)
		}
	}
	switch x := v.(type) {
	case []any:
		if items, ok := s["items"].(map[string]any); ok {
			for i, item := range x {
				if wrong := follows(items, item, fmt.Sprintf("%s.%d", key, i)); wrong != "" {
					return wrong
				}
			}
		}
	case map[string]any:
		properties, _ := s["properties"].(map[string]any)
		for name, below := range x {
			at, ok := properties[name].(map[string]any)
			if !ok {
				switch more := s["additionalProperties"].(type) {
				case map[string]any:
					at = more
				case bool:
					if !more {
						return key + "." + name + ": no such key"
					}
				}
			}
			if wrong := follows(at, below, key+"."+name); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// followsAny reports whether v follows one of the schemas; one that refers to another schema stands for an
// interpolation.
func followsAny(schemas []any, v any, key string) bool {
	return slices.ContainsFunc(schemas, func(one any) bool {
		s := one.(map[string]any)
		if s["$ref"] != nil {
			text, ok := v.(string)
			return ok && strings.Contains(text, "${")
		}
		return follows(s, v, key) == ""
	})
}

// schemaType returns the type that a schema gives v.
func schemaType(v any) string {
	switch x := v.(type) {
	case map[string]any:
		return "object"
	case []any:
		return "array"
	case string:
		return "string"
	case bool:
		return "boolean"
	case int:
		return "integer"
	case float64:
		if x == float64(int64(x)) {
			return "integer"
		}
		return "number"
	}
	return "null"
}

// A commandCase is a command line with its exit code and texts that it prints.
type commandCase struct {
	args string
	code int
	want []string
}

// runCases runs each command line as a case of its own.
func runCases(t *testing.T, cases []commandCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.args, func(t *testing.T) {
			code, stdout, stderr := run(t, strings.Fields(c.args)...)
			test.Equal(t, code, c.code, "exit code")
			for _, want := range c.want {
				if !strings.Contains(stdout+stderr, want) {
					t.Errorf("want %q in\n%s%s", want, stdout, stderr)
				}
			}
		})
	}
}

// TestHelp: help explains commands, and it and config explain keys.
func TestHelp(t *testing.T) {
	runCases(t, []commandCase{
		{"help", 0, []string{"COMMANDS:", "completion"}},
		{"--help", 0, []string{"COMMANDS:", "completion"}},
		{"help bench p2p", 0, []string{"rlinf bench p2p", "--window"}},
		{"help algorithm.gamma", 0, []string{
			"algorithm.gamma\n", "discount γ in [0, 1]", "type          number", "default       1", "key of RLinf  yes",
		}},
		{"help actor.seed", 0, []string{"default       as runner.seed"}},
		{"help env.train.task.rewards.3.weight", 0, []string{"env.train.task.rewards[].weight", "key of RLinf  no"}},
		{"help cluster.component_placement.actor.placement", 0, []string{"component_placement.<name>.placement"}},
		{"help algorithm.replay_buffer", 0, []string{
			"type          section", "algorithm.replay_buffer.min_buffer_size: integer, default 100",
		}},
		{"help rollout.enable_offload", 0, []string{"no effect here"}},
		{"help seed", 0, []string{"Instead: runner.seed is the seed."}},
		{"help rollout.model_dir", 0, []string{"old name", "rollout.model.model_path"}},
		{"config algorithm.replay", 0, []string{
			"algorithm.replay_buffer.sample_window_size: integer\n", "+ RLinf does not have",
		}},
		{"config runner.s", 0, []string{
			"runner.seed +: integer ≥ 0, default 1\n    seed is the seed of all random numbers",
		}},
		{"config --format markdown actor.optim", 0, []string{"| `actor.optim.lr` | number | - |"}},
		{"config --format schema", 0, []string{`"$schema"`}},
		{"--version", 0, []string{"rlinf "}},
	})
}

// TestMistypedWords: for a word that is no command and no key, the error suggests the intended one.
func TestMistypedWords(t *testing.T) {
	runCases(t, []commandCase{
		{"help lr", 2, []string{`"lr" is no command and no key, did you mean actor.optim.lr?`}},
		{"help algorithm.gama", 2, []string{"did you mean algorithm.gamma?"}},
		{"help gama", 2, []string{`"gama" is no command and no key, did you mean algorithm.gamma?`}},
		{"trian -c x.yaml", 2, []string{`"trian" is no command: rlinf -c FILE.yaml trains`}},
		{"-c ../../configs/cartpole_ppo", 2, []string{
			"../../configs/cartpole_ppo: no such file, did you mean ../../configs/cartpole_ppo.yaml?",
		}},
		{"-c ../../configs/acrobot_pp.yaml", 2, []string{
			"../../configs/acrobot_pp.yaml: no such file, did you mean ../../configs/acrobot_ppo.yaml?",
		}},
		{"help chekc", 2, []string{"did you mean check?"}},
		{"help evall", 2, []string{"did you mean eval?"}},
		{"help bench pp", 2, []string{`"pp" is no command, did you mean p2p?`}},
		{"help nothing_like_it", 2, []string{"rlinf help lists the commands"}},
		{"config gama", 2, []string{`no key begins with "gama", did you mean algorithm.gamma?`}},
		{"chekc -c x.yaml", 2, []string{`"chekc" is no command, did you mean check?`}},
		{"evaluate -c x.yaml", 2, []string{`"evaluate" is no command, did you mean eval?`}},
		{"xyzzy", 2, []string{`"xyzzy" is no command, rlinf help lists the commands`}},
		{"evall", 2, []string{"did you mean eval?"}},
	})
}

// TestMistypedArguments: for a flag or an argument that a command does not have or cannot read, the error says what is
// expected.
func TestMistypedArguments(t *testing.T) {
	runCases(t, []commandCase{
		{"cartpole.yaml", 2, []string{
			`argument "cartpole.yaml": expected -c before the configuration: -c cartpole.yaml`,
		}},
		{"-c x.yaml --seed 3", 2, []string{
			"unknown flag --seed: settings are written key=value: did you mean runner.seed=…?",
		}},
		{"sweep --seed 3", 2, []string{"unknown flag --seed, did you mean --seeds?"}},
		{"compare --fast x", 2, []string{"unknown flag --fast: rlinf compare --help lists the flags"}},
		{"bench --max 1MiB", 2, []string{"--max 1MiB: expected a whole number (maximum number of samples)"}},
		{"bench --max-time 3", 2, []string{
			"--max-time 3: expected a time with its unit, as 90s (maximum time for each measurement)",
		}},
		{"config --format xml", 2, []string{"--format xml: expected text, markdown or schema"}},
		{"config a b", 2, []string{`argument "b": expected one prefix`}},
		{"check --strcit -c x.yaml", 2, []string{"did you mean --strict?"}},
		{"--version now", 2, []string{`argument "now": expected none`}},
		{"bench p2", 2, []string{`argument "p2": expected none, did you mean p2p?`}},
	})
}

// TestMistypedOverrides: for an override of a key that does not exist, the error suggests the intended key.
func TestMistypedOverrides(t *testing.T) {
	runCases(t, []commandCase{
		{"check -c " + rolestest.Cartpole + " lr=1e-3", 2, []string{
			"command line: lr: unknown key, did you mean actor.optim.lr?",
		}},
		{"check -c " + rolestest.Cartpole + " gama=1", 2, []string{"gama: unknown key, did you mean algorithm.gamma?"}},
		{"check -c " + rolestest.Cartpole + " max_steps=2", 2, []string{
			"max_steps: unknown key, did you mean runner.max_steps?",
		}},
		{"check -c " + rolestest.Cartpole + " optim.lr=1", 2, []string{
			"optim: unknown key, did you mean actor.optim.lr?",
		}},
	})
}

// TestHelpGroups: the help shows every command below the heading of its group.
func TestHelpGroups(t *testing.T) {
	_, help, _ := run(t, "help")
	at := 0
	for _, want := range []string{
		"\n   train and evaluate:\n     init ", "\n     check ", "\n     export ", "\n     bridge ",
		"\n   look at runs:\n     status ", "\n     watch ", "\n     report ", "\n     compare ", "\n     trace ",
		"\n   look up environments and keys:\n     envs ", "\n     help, h ",
		"\n   language models:\n     data ", "\n     score ",
		"\n   machine and shell:\n     doctor ", "\n     man ",
	} {
		next := strings.Index(help[at:], want)
		if next < 0 {
			t.Fatalf("want %q, and in this order, in\n%s", want, help)
		}
		at += next
	}
	code := 0
	for _, c := range newApp(rolestest.Registries(), tasks(), session.UserProgram{}, nil, &code).Commands {
		if c.Category == "" {
			t.Errorf("%s is in no group of the help", c.Name)
		}
	}
}

// TestOwnKeysInHelp: keys of a user's own part are explained as the others are.
func TestOwnKeysInHelp(t *testing.T) {
	reg := withParts(new(made))
	for key, want := range map[string]string{
		"algorithm.my_coef":          "only with     loss_type ",
		"env.train.init_params.wind": "only with     environment ",
		"env.eval.init_params.wind":  "only with     environment ",
		"actor.model.my_width":       "only with     model_type ",
	} {
		if code, stdout, stderr := runWith(t, reg, "help", key); code != 0 || !strings.Contains(stdout, want) {
			t.Errorf("help %s: exit code %d, want %q in\n%s%s", key, code, want, stdout, stderr)
		}
	}
}

// TestCompletion checks the candidates for the last word of a command line, also in bash.
func TestCompletion(t *testing.T) {
	for _, c := range []struct{ words, want string }{
		{"be", "bench"},
		{"bench p2", "p2p"},
		{"bench p2p --win", "--window"},
		{"-c x.yaml algorithm.gam", "algorithm.gamma="},
		{"check -c x.yaml algorithm.shuffle_rollout=",
			"algorithm.shuffle_rollout=true algorithm.shuffle_rollout=false"},
		{"check env.train.env_type=CartP", "env.train.env_type=CartPole-v1"},
		{"check algorithm.loss_type=actor_", "algorithm.loss_type=actor_critic"},
		{"help algorithm.gam", "algorithm.gamma"},
		{"help bench p2", "p2p"},
		{"config algorithm.repl", "algorithm.replay_buffer algorithm.replay_buffer.sample_window_size " +
			"algorithm.replay_buffer.min_buffer_size algorithm.replay_buffer.hindsight " +
			"algorithm.replay_buffer.hindsight.goal_selection_strategy " +
			"algorithm.replay_buffer.hindsight.n_sampled_goal"},
		{"completion b", "bash"},
		{"check -c run", ""},
		{"check x.yaml=1 ben", ""},
		{"envs algorithm.gam", ""},
	} {
		words := strings.Split(c.words, " ")
		code, stdout, stderr := run(t, append([]string{"completion", "words", "--"}, words...)...)
		if got := strings.Join(strings.Fields(stdout), " "); code != 0 || got != c.want {
			t.Errorf("%q: exit code %d, %q, want %q\n%s", c.words, code, got, c.want, stderr)
		}
	}
	if code, _, stderr := run(t, "completion", "tcsh"); code != loop.ExitConfig ||
		!strings.Contains(stderr, "expected bash, fish or zsh") {
		t.Errorf("tcsh: exit code %d, %s", code, stderr)
	}
	_, script, _ := run(t, "completion", "bash")
	fake := filepath.Join(t.TempDir(), "rlinf")
	test.OK(t, os.WriteFile(fake, []byte("#!/bin/sh\nshift 3; echo \"seen:$*=\"; echo \"a.b=true\"\n"),
		0o755))
	for line, want := range map[string]string{
		fake + " check al": "seen:check al=\na.b=true\n",
		fake + " a.b=t":    "seen:a.b=t=\ntrue\n",
		fake + " check ":   "seen:check =\na.b=true\n",
	} {
		ask := fmt.Sprintf("COMP_LINE=%q COMP_POINT=%d; _rlinf; printf '%%s\\n' \"${COMPREPLY[@]}\"", line, len(line))
		out, err := exec.Command("bash", "-c", script+ask).CombinedOutput()
		if err != nil || string(out) != want {
			t.Errorf("bash, %q: %v, %q, want %q", line, err, out, want)
		}
	}
}
