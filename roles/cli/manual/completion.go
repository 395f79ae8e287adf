package manual

import (
	_ "embed" // the scripts
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/cli/args"
	settings "github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

const completionUsage = `eval "$(rlinf completion bash)"     # in ~/.bashrc
eval "$(rlinf completion zsh)"      # in ~/.zshrc, after compinit
rlinf completion fish | source      # in ~/.config/fish/config.fish`

// The completion scripts of shells. They call the program for candidates, because it knows its commands, flags and
// keys.
var (
	//go:embed completion.bash
	bashScript string
	//go:embed completion.zsh
	zshScript string
	//go:embed completion.fish
	fishScript string
)

// runCompletion prints the script of a shell. This script calls "rlinf completion words WORD..." with the words of a
// command line. Then runCompletion prints the candidates for the last word.
func runCompletion(c *cli.Context, reg settings.Registries) error {
	words := c.Args().Slice()
	scripts := map[string]string{"bash": bashScript, "zsh": zshScript, "fish": fishScript}
	switch {
	case len(words) == 1 && scripts[words[0]] != "":
		fmt.Fprint(c.App.Writer, scripts[words[0]])
	case len(words) > 1 && words[0] == "words":
		for _, candidate := range complete(c.App, reg, words[1:]) {
			fmt.Fprintln(c.App.Writer, candidate)
		}
	default:
		return settings.Usagef("completion: expected bash, fish or zsh")
	}
	return nil
}

// complete returns the candidates for the last word. If there are none, the shell completes file names.
func complete(app *cli.App, reg settings.Registries, words []string) []string {
	current, before := words[len(words)-1], words[:len(words)-1]
	flags, commands, path := app.Flags, app.Commands, ""
	value, plain := false, false // value: the next word is the value of a flag; plain: plain arguments have begun
	for _, word := range before {
		switch at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) }); {
		case value:
			value = false
		case strings.HasPrefix(word, "-"):
			value = !strings.Contains(word, "=") && args.TakesValue(flags, word)
		case at >= 0 && !plain:
			path = strings.TrimSpace(path + " " + word)
			flags, commands = commands[at].Flags, commands[at].Subcommands
			if path == "help" {
				commands = app.Commands
			}
		default:
			plain = true
		}
	}
	var all []string
	switch {
	case value:
		return nil
	case strings.HasPrefix(current, "-"):
		all = flagNames(flags)
	default:
		if !plain {
			for _, c := range commands {
				if !c.Hidden {
					all = append(all, c.Name)
				}
			}
		}
		all = append(all, arguments(reg, flags, path, current)...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return !strings.HasPrefix(s, current) })
}

// arguments returns candidates for an argument of a command. path is the full name of the command, such as "bridge
// check". The candidates are keys if the command reads a configuration or explains keys.
func arguments(reg settings.Registries, flags []cli.Flag, path, current string) (all []string) {
	explains := strings.HasPrefix(path, "help") || path == "config"
	if path == "completion" {
		return []string{"bash", "fish", "zsh"}
	}
	if !explains && !args.TakesValue(flags, "config") {
		return nil
	}
	key, _, hasValue := strings.Cut(current, "=")
	for _, k := range settings.Reference(reg) {
		switch {
		case hasValue && k.Name == key:
			for _, v := range values(reg, k) {
				all = append(all, key+"="+v)
			}
		case hasValue || strings.ContainsAny(k.Name, "[<"):
		case explains:
			all = append(all, k.Name)
		case !k.Section:
			all = append(all, k.Name+"=")
		}
	}
	return all
}

// values returns the possible values of a key whose values are names or booleans, and nil for other keys.
func values(reg settings.Registries, k settings.ManualEntry) []string {
	switch name := k.Name[strings.LastIndexByte(k.Name, '.')+1:]; {
	case k.Type == "boolean":
		return []string{"true", "false"}
	case name == "env_type":
		return append(reg.Envs.Names(), env.ExternalID)
	case name == "model_type":
		return reg.Policies.Names()
	case name == "adv_type" || name == "loss_type":
		var names []string
		for _, pair := range reg.Algorithms.Pairs() {
			names = append(names, pair[map[string]int{"adv_type": 0, "loss_type": 1}[name]])
		}
		slices.Sort(names)
		return slices.Compact(names)
	}
	return nil
}

// flagNames returns the longest name of each flag, with dashes.
func flagNames(flags []cli.Flag) (all []string) {
	for _, f := range flags {
		if f == cli.HelpFlag {
			continue // every command has this flag
		}
		names := slices.SortedFunc(slices.Values(f.Names()), func(a, b string) int { return len(b) - len(a) })
		all = append(all, "--"+names[0])
	}
	return append(all, "--help")
}
