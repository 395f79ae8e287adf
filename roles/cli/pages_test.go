package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"gopkg.in/yaml.v3"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/roles/cli/manual"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/internal/rolestest"
	"github.com/rlinf/rlinf/roles/session"
)

// TestPages: each command of rlinf in the pages' blocks of shell, with its flags, keys and configuration, is one that
// this program takes. So is each flag and each key that a page has in code, and each key in its blocks of YAML.
func TestPages(t *testing.T) {
	t.Parallel()
	p := newAccepted()
	commands, flags, keys := 0, 0, 0
	for page, text := range test.Pages(t, os.DirFS("../..")) {
		if filepath.Base(page) == "CHANGELOG.md" { // tells what was there, too
			continue
		}
		for _, line := range test.ShellCommands(text) {
			if words, is := p.ours(line); is {
				commands++
				if err := p.command(words); err != nil {
					t.Errorf("%s: %s: %v", page, line, err)
				}
			}
		}
		for _, span := range test.CodeSpans(text) {
			if words, is := p.ours(span); is {
				commands++
				if err := p.command(words); err != nil {
					t.Errorf("%s: `%s`: %v", page, span, err)
				}
			} else if flag := flagNamed.FindString(span); flag != "" {
				flags++
				if !p.flags[flag] && elsewhere[flag] == "" {
					t.Errorf("%s: `%s`: no command has the flag %s", page, span, flag)
				}
			} else if key, is := p.key(span); is {
				keys++
				if !p.has(key) {
					t.Errorf("%s: `%s`: no key %s", page, span, key)
				}
			}
		}
		for _, block := range test.Blocks(text, "yaml") {
			for _, key := range p.keysOf(block) {
				keys++
				if !p.has(key) {
					t.Errorf("%s: a block of YAML: no key %s", page, key)
				}
			}
		}
	}
	if commands < 200 || flags < 100 || keys < 500 {
		t.Errorf("%d commands, %d flags and %d keys looked at", commands, flags, keys)
	}
}

// elsewhere are flags of other programs that pages name, and those programs.
var elsewhere = map[string]string{
	"--bind-to": "mpirun", "--map-by": "mpirun", "--mca": "mpirun", "--report-bindings": "mpirun",
	"-hostfile": "mpirun",
	"--array":   "sbatch", "--cpus-per-task": "sbatch", "--signal": "sbatch", "--mpi": "srun",
	"--cap-add": "docker", "--pid": "docker", "--contain": "apptainer", "--containall": "apptainer",
	"--sharens":   "apptainer",
	"--no-camera": "rlb.fake_robot",
	"--virtual":   "rlb.fake_robot", "--stall": "rlb.fake_robot", "--crash": "rlb.fake_robot",
	"--package": "scripts/build", "-infer": "scripts/scaling", "-skew": "scripts/scaling", "-shrink": "scripts/scaling",
	"-fit": "scripts/scaling", "-beyond": "scripts/scaling", "-update": "go test, scripts/scaling", "-bench": "go test",
	"-ffast-math": "gcc", "-lm": "gcc",
}

// An accepted has what rlinf takes.
type accepted struct {
	app   *cli.App
	flags map[string]bool // of any command, with their dashes
	keys  map[string]bool // with sections and old names
	maps  []string        // keys below which a user chooses names
	reg   config.Registries
}

func newAccepted() *accepted {
	reg, code := rolestest.Registries(), 0
	p := &accepted{app: newApp(reg, tasks(), session.UserProgram{}, nil, &code), flags: map[string]bool{"--help": true},
		keys: map[string]bool{}, maps: []string{"cluster.component_placement"}, reg: reg}
	for _, f := range p.app.Flags {
		p.addFlag(f)
	}
	manual.Each(p.app.Commands, func(_ string, c *cli.Command) {
		for _, f := range c.Flags {
			p.addFlag(f)
		}
	})
	add := func(key string) {
		for ; key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
			p.keys[key], p.keys[strings.TrimSuffix(key, "[]")] = true, true
		}
	}
	for _, k := range config.Reference(reg) {
		if add(k.Name); strings.Contains(k.Type, "map") {
			p.maps = append(p.maps, k.Name)
		}
	}
	for _, o := range config.OldNames() {
		add(o.Old)
		for today := range strings.SplitSeq(o.Today, ", ") {
			add(today)
		}
	}
	for _, key := range ownKeysOfPages {
		add(key)
	}
	return p
}

// ownKeysOfPages are the keys of the parts of examples/own_keys, which this program does not have.
var ownKeysOfPages = []string{"env.train.init_params.wind", "actor.model.my_width", "algorithm.action_price",
	"reward.near_width"}

func (p *accepted) addFlag(f cli.Flag) {
	for _, name := range f.Names() {
		p.flags["--"+name], p.flags["-"+name] = true, true
	}
}

var (
	flagNamed  = regexp.MustCompile(`^--?[a-z][a-z-]*`)
	wordOfLine = regexp.MustCompile(`(?:[^\s"']|"[^"]*"|'[^']*')+`)
	otherNames = regexp.MustCompile(`\.go$|^actor\.\d`) // files, and names of parameters
	keyNamed   = regexp.MustCompile(`^[~+]{0,2}([a-z_]+(?:\.[a-z0-9_]+|\[\]|\.<name>|\.\d+)+)(?:$|[=:] ?)`)
	callOfOurs = regexp.MustCompile(`^(?:(?:\S*mpirun\S*|srun|\w+=\S*|taskset|chrt|-\S+|\d+) )*(?:\./)?rlinf( |$)`)
)

// ours returns the words behind rlinf of a command line, if it is one.
func (p *accepted) ours(line string) (words []string, is bool) {
	m := callOfOurs.FindString(line)
	if m == "" || line == "rlinf" {
		return nil, false
	}
	line, _, _ = strings.Cut(line[len(m):], " | ")
	line, _, _ = strings.Cut(line, " > ")
	line, _, _ = strings.Cut(line, " : ") // the other programs of an MPI job
	for _, w := range wordOfLine.FindAllString(line, -1) {
		if w != "&" && !strings.HasPrefix(w, ">") {
			words = append(words, strings.NewReplacer(`"`, "", "'", "").Replace(w))
		}
	}
	return words, true
}

// command reports what is wrong with the words of a command: its name, a flag, the key of an override, or the
// configuration with its overrides.
func (p *accepted) command(words []string) error {
	flags, commands := p.app.Flags, p.app.Commands
	for len(words) > 0 && !strings.HasPrefix(words[0], "-") && len(commands) > 0 {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(words[0]) })
		if i < 0 {
			if len(flags) == len(p.app.Flags) && strings.ToUpper(words[0]) != words[0] && words[0] != "…" {
				return fmt.Errorf("no command %s", words[0])
			}
			break
		}
		flags, commands, words = commands[i].Flags, commands[i].Subcommands, words[1:]
	}
	file, sweeps := "", flagOf(flags, "seeds") != nil
	var overrides []string
	for i := 0; i < len(words); i++ {
		w := words[i]
		switch key, is := p.key(w); {
		case w == "--":
			return nil // the words of another program follow
		case strings.HasPrefix(w, "-") && len(w) > 1:
			name, value, given := strings.Cut(strings.TrimLeft(w, "-"), "=")
			f := flagOf(flags, name)
			if f == nil && name != "help" && name != "h" {
				return fmt.Errorf("no flag %s", w)
			}
			if d, ok := f.(cli.DocGenerationFlag); ok && d.TakesValue() && !given {
				if i++; i >= len(words) {
					continue // as in `--out`, on its own
				}
				value = words[i]
			}
			if f != nil && slices.Contains(f.Names(), "config") {
				file = value
			}
		case is && strings.Contains(w, "="):
			if !p.has(key) {
				return fmt.Errorf("no key %s", key)
			}
			name, value, _ := strings.Cut(w, "=")
			if sweeps && !strings.ContainsAny(value, "[{") {
				value, _, _ = strings.Cut(value, ",") // the first of several values
			}
			if strings.ToUpper(value) != value || strings.ToLower(value) == value { // capitals stand for a value
				overrides = append(overrides, name+"="+value)
			}
		}
	}
	path := filepath.Join("../..", file)
	if _, err := os.Stat(path); file == "" || err != nil || strings.Contains(strings.Join(words, " "), "…") {
		return nil // the page itself shows the file, or leaves it to the reader
	}
	_, _, err := config.Load(p.reg, path, overrides, false)
	return err
}

func flagOf(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

// key returns the key that a word or a span of code begins with, if it is one of a section of the configuration.
func (p *accepted) key(word string) (key string, is bool) {
	m := keyNamed.FindStringSubmatch(word)
	if m == nil || otherNames.MatchString(m[1]) {
		return "", false
	}
	section, _, _ := strings.Cut(m[1], ".")
	return m[1], p.keys[section]
}

// number matches the index of an item of a list in a key.
var number = regexp.MustCompile(`\.\d+`)

// has reports whether a configuration may have a key.
func (p *accepted) has(key string) bool {
	if p.keys[key] || p.keys[number.ReplaceAllString(key, "[]")] ||
		slices.ContainsFunc(p.maps, func(m string) bool { return strings.HasPrefix(key, m+".") }) {
		return true
	}
	_, ofRLinf := config.WithoutEffect(key)
	_, section := config.WithoutEffect(key + ".any")
	return ofRLinf || section
}

// keysOf returns the keys of a block of YAML that is a configuration or a part of one.
func (p *accepted) keysOf(block string) (keys []string) {
	var doc map[string]any
	if yaml.Unmarshal([]byte(block), &doc) != nil {
		return nil
	}
	for section := range doc {
		if !p.keys[section] {
			return nil
		}
	}
	eachKey(doc, "", func(key string) { keys = append(keys, strings.ReplaceAll(key, `"`, "")) })
	return keys
}
