package manual

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// CommandPage returns the page of docs/reference about the commands of app and their flags.
func CommandPage(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands\n\nThis page is generated from the program. Do not edit it: change the command, and "+
		"run\n\n    %s\n\n`rlinf help COMMAND` and `rlinf COMMAND --help` show the same for one command. "+
		"%s\n", Regenerate, strings.Join(strings.Fields(app.Description), " "))
	b.WriteString("\n| command | |\n|---|---|\n| `rlinf -c FILE.yaml` | train |\n")
	category := ""
	Each(app.Commands, func(path string, c *cli.Command) {
		if c.Category != "" && c.Category != category { // subcommands have none
			category = c.Category
			fmt.Fprintf(&b, "| **%s** | |\n", category)
		}
		fmt.Fprintf(&b, "| [`rlinf %s`](#rlinf-%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), escape(c.Usage))
	})
	b.WriteString("\n## rlinf\n\nTrain.\n\n```\n" + unindent(app.UsageText) + "\n```\n")
	writeFlags(&b, app.Flags)
	Each(app.Commands, func(path string, c *cli.Command) {
		fmt.Fprintf(&b, "\n## rlinf %s\n\n%s\n\n```\n", path, sentence(c.Usage))
		switch {
		case c.UsageText != "":
			b.WriteString(unindent(c.UsageText))
		case c.ArgsUsage != "":
			fmt.Fprintf(&b, "rlinf %s %s", path, c.ArgsUsage)
		default:
			fmt.Fprintf(&b, "rlinf %s", path)
		}
		b.WriteString("\n```\n")
		writeFlags(&b, c.Flags)
	})
	return b.String()
}

// Each calls f for every command that is not hidden. path is the full name of the command, such as "bridge check".
func Each(commands []*cli.Command, f func(path string, c *cli.Command)) { each(commands, "", f) }

func each(commands []*cli.Command, above string, f func(path string, c *cli.Command)) {
	for _, c := range commands {
		if c.Hidden || above != "" && c.Name == "help" {
			continue
		}
		path := strings.TrimSpace(above + " " + c.Name)
		f(path, c)
		each(c.Subcommands, path, f)
	}
}

// writeFlags writes a table of flags.
func writeFlags(b *strings.Builder, flags []cli.Flag) {
	if len(flags) == 0 {
		return
	}
	b.WriteString("\n| flag | default | meaning |\n|---|---|---|\n")
	for _, f := range flags {
		if f == cli.HelpFlag {
			continue
		}
		flag := f.(cli.DocGenerationFlag)
		usage, value := flag.GetUsage(), ""
		if before, rest, ok := strings.Cut(usage, "`"); ok {
			name, after, _ := strings.Cut(rest, "`")
			usage, value = before+name+after, " "+name
		} else if flag.TakesValue() {
			value = " VALUE"
		}
		var names []string
		for _, name := range f.Names() {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			names = append(names, "`"+dashes+name+value+"`")
		}
		fmt.Fprintf(b, "| %s | %s | %s |\n", strings.Join(names, ", "), escape(flagDefault(flag)), escape(usage))
	}
}

// flagDefault returns the default of a flag, or "" if the flag has none.
func flagDefault(f cli.DocGenerationFlag) string {
	text := f.GetDefaultText()
	if text == "" && f.TakesValue() {
		text = f.GetValue()
	}
	if text = strings.Trim(text, `"`); text == "false" || text == "0" || text == "[]" {
		return ""
	}
	return text
}

// sentence returns s with a capital letter and a full stop. If s begins with a key, the key keeps its case.
func sentence(s string) string {
	first, _, _ := strings.Cut(s, " ")
	if !strings.Contains(first, "_") {
		s = strings.ToUpper(s[:1]) + s[1:]
	}
	return strings.TrimSuffix(s, ".") + "."
}

// unindent removes the indentation of a usage text.
func unindent(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines {
		lines[i] = strings.TrimSpace(line)
	}
	return strings.Join(lines, "\n")
}
