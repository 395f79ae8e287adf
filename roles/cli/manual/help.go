// Package manual answers: what does a command, or a key, mean? It has the commands help, config, completion and
// man, and writes the pages of docs/reference.
package manual

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/cli/args"
	settings "github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// Commands returns the commands help, config, completion and man.
func Commands(reg settings.Registries) []*cli.Command {
	return []*cli.Command{
		{Name: "help", Aliases: []string{"h"}, Usage: "explain a command, or a key of the configuration",
			ArgsUsage: "[COMMAND... | KEY]",
			Action:    args.Alone(func(c *cli.Context) error { return runHelp(c, reg) })},
		{Name: "config", Usage: "list the keys of the configuration: type, default and meaning",
			ArgsUsage: "[PREFIX]",
			Flags: []cli.Flag{&cli.StringFlag{Name: "format", Value: "text",
				Usage: "format (`FORM`) of the list: text, markdown, or schema for a JSON Schema"}},
			Action: args.Alone(func(c *cli.Context) error { return runConfig(c, reg) })},
		{Name: "completion", Usage: "print a script that completes commands, flags and keys: bash, fish or zsh",
			UsageText: completionUsage, ArgsUsage: "bash|zsh",
			Action: args.Alone(func(c *cli.Context) error { return runCompletion(c, reg) })},
		{Name: "man", Usage: "print the manual page: rlinf man | man -l -",
			Action: args.Alone(args.NoArguments(func(c *cli.Context) error {
				page, err := c.App.ToManWithSection(1)
				if err == nil {
					_, err = io.WriteString(c.App.Writer, page)
				}
				return err
			}))},
	}
}

// GroupedHelp returns the library's template for the program's help, but with categories in the order of the
// commands. The library sorts categories by name.
func GroupedHelp() string {
	return strings.Replace(cli.AppHelpTemplate, `{{template "visibleCommandCategoryTemplate" .}}`,
		`{{$category := ""}}{{range .VisibleCommands}}{{if ne .Category $category}}{{$category = .Category}}
   {{.Category}}:{{end}}
     {{join .Names ", "}}{{"\t"}}{{.Usage}}{{end}}`, 1)
}

// runHelp explains the program, a command or a key.
func runHelp(c *cli.Context, reg settings.Registries) error {
	words := c.Args().Slice()
	if len(words) == 0 {
		return cli.ShowAppHelp(c)
	}
	commands, found := c.App.Commands, 0
	for _, word := range words {
		at := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
		if at < 0 {
			break
		}
		commands, found = commands[at].Subcommands, found+1
	}
	if found == len(words) {
		return c.App.RunContext(c.Context, slices.Concat([]string{c.App.Name}, words, []string{"--help"}))
	}
	if len(words) == 1 {
		return explain(c.App, reg, words[0])
	}
	return args.Unknown(commands, words[found], "command")
}

// explain writes the meaning of a key, or of a section and its keys.
func explain(app *cli.App, reg settings.Registries, word string) error {
	keys := settings.Reference(reg)
	name := pattern(word)
	for i, k := range keys {
		if k.Name != name {
			continue
		}
		if err := writeKey(app.Writer, k); err != nil || !k.Section {
			return err
		}
		fmt.Fprintln(app.Writer)
		return writeKeys(app.Writer, keysOf(keys[i+1:], name))
	}
	for _, o := range settings.OldNames() {
		if o.Old == word {
			_, err := fmt.Fprintf(app.Writer, "%s is an old name. Today it is %s.\n", word, o.Today)
			return err
		}
	}
	if instead, ok := settings.WithoutEffect(word); ok {
		if instead != "" {
			instead = " Instead: " + instead + "."
		}
		_, err := fmt.Fprintf(app.Writer, "%s is a key of RLinf. It is accepted and has no effect here.%s\n", word,
			instead)
		return err
	}
	near := nearest(keys, word)
	if near != "" && (strings.HasSuffix(near, "."+word) || args.Meant(app.Commands, word) == "") {
		return settings.Usagef("%q is no command and no key, did you mean %s?", word, near)
	}
	return args.Unknown(app.Commands, word, "command and no key")
}

// nearest returns the key that is most similar to word, or "" if no key is similar.
func nearest(keys []settings.ManualEntry, word string) string {
	names := make([]string, len(keys))
	for i, k := range keys {
		names[i] = k.Name
	}
	return config.Likeliest(word, names)
}

// pattern returns a dotted key in the form of the reference. It writes "[]" for the index of an item, and <name> for a
// name that the user chooses.
func pattern(key string) string {
	names := strings.Split(key, ".")
	for i, name := range names {
		switch {
		case i > 0 && name != "" && strings.Trim(name, "0123456789") == "":
			names[i-1] += "[]"
			names[i] = ""
		case i == 2 && names[0] == "cluster" && names[1] == "component_placement":
			names[i] = "<name>"
		}
	}
	names = slices.DeleteFunc(names, func(s string) bool { return s == "" })
	return strings.Join(names, ".")
}

// keysOf returns the keys of a section.
func keysOf(keys []settings.ManualEntry, section string) []settings.ManualEntry {
	var all []settings.ManualEntry
	for _, k := range keys {
		if rest, ok := strings.CutPrefix(k.Name, section); ok && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			all = append(all, k)
		}
	}
	return all
}

// runConfig lists the keys that begin with a prefix.
func runConfig(c *cli.Context, reg settings.Registries) error {
	if c.Args().Len() > 1 {
		return settings.Usagef("config: argument %q: expected one prefix", c.Args().Get(1))
	}
	all := settings.Reference(reg)
	keys, prefix := all, c.Args().First()
	if prefix != "" {
		keys = slices.DeleteFunc(slices.Clone(all), func(k settings.ManualEntry) bool {
			return !strings.HasPrefix(k.Name, pattern(prefix))
		})
	}
	if len(keys) == 0 {
		want := "expected the beginning of a key, as algorithm or actor.optim"
		if near := nearest(all, prefix); near != "" {
			want = "did you mean " + near + "?"
		}
		return settings.Usagef("config: no key begins with %q, %s", prefix, want)
	}
	switch form := c.String("format"); form {
	case "text":
		return writeKeys(c.App.Writer, keys)
	case "markdown":
		_, err := io.WriteString(c.App.Writer, Markdown(reg, keys))
		return err
	case "schema":
		_, err := c.App.Writer.Write(Schema(reg))
		return err
	default:
		return settings.Usagef("--format %s: expected text, markdown or schema", form)
	}
}
