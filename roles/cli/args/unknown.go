package args

import (
	"fmt"
	"slices"
	"strings"

	keys "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// Unknown returns the usage error for a word that is none of commands. what says what it is not.
func Unknown(commands []*cli.Command, word, what string) error {
	hint := Meant(commands, word)
	if hint == "" {
		hint = ", rlinf help lists the commands"
	}
	return config.UsageError{Err: fmt.Errorf("%q is no %s%s", word, what, hint)}
}

// Meant asks whether a word was meant as the command that it is most like; "" if it is like none.
func Meant(commands []*cli.Command, word string) string {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	if near := keys.Nearest(word, names); near != "" {
		return ", did you mean " + near + "?"
	}
	return ""
}

// checkOverride returns what is wrong with an argument that should be an override.
func checkOverride(c *cli.Context, word string) error {
	if strings.ContainsAny(word, "=~") {
		return nil
	}
	want := "want key=value (or a command: rlinf help lists them)"
	if hint := Meant(c.App.Commands, word); hint != "" {
		want = "want key=value (or a command)" + hint
	}
	return config.UsageError{Err: fmt.Errorf("argument %q: %s", word, want)}
}

// TakesValue reports whether flags have one of that name that a value follows.
func TakesValue(flags []cli.Flag, name string) bool {
	for _, f := range flags {
		if slices.Contains(f.Names(), name) {
			_, isBool := f.(*cli.BoolFlag)
			return !isBool
		}
	}
	return false
}

// UnknownFlag returns err with the flag that was most likely meant, if err is about a flag that
// there is not.
func UnknownFlag(c *cli.Context, err error) error {
	_, name, ok := strings.Cut(err.Error(), "flag provided but not defined: -")
	if !ok {
		return err
	}
	var names []string
	for _, f := range c.Command.Flags {
		names = append(names, f.Names()...)
	}
	if near := keys.Nearest(strings.TrimLeft(name, "-"), names); near != "" {
		return fmt.Errorf("%w, did you mean --%s?", err, near)
	}
	return err
}
