package args

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	keys "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// Unknown returns the usage error for a word that names none of the commands. The noun says what was expected, such as
// "command".
func Unknown(commands []*cli.Command, word, noun string) error {
	hint := Meant(commands, word)
	hint = cmp.Or(hint, ", rlinf help lists the commands")
	return config.Usagef("%q is no %s%s", word, noun, hint)
}

// Meant returns a question such as ", did you mean eval?" about the command that is most similar to word. It returns ""
// if no command is similar.
func Meant(commands []*cli.Command, word string) string {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	near := keys.Nearest(word, names)
	for _, name := range names { // a word such as check-config may begin with a command
		if near == "" && len(name) > 2 && strings.HasPrefix(word, name) {
			near = name
		}
	}
	if near == "" {
		return ""
	}
	return ", did you mean " + near + "?"
}

// commandWord matches words that may be commands.
var commandWord = regexp.MustCompile(`^[a-z][a-z-]*$`)

// checkOverride returns an error if an argument is not an override.
func checkOverride(c *cli.Context, word string) error {
	if strings.ContainsAny(word, "=~") {
		return nil
	}
	root := c.Command.Name == "" || c.Command.Name == c.App.Name
	if root && commandWord.MatchString(word) {
		if keys.Nearest(word, []string{"train", "run"}) != "" {
			return config.Usagef("%q is no command: rlinf -c FILE.yaml trains", word)
		}
		return Unknown(c.App.Commands, word, "command")
	}
	want := "expected key=value (or a command: rlinf help lists them)"
	if hint := Meant(c.App.Commands, word); hint != "" {
		want = "expected key=value (or a command)" + hint
	} else if keys.Nearest(word, []string{"train", "run"}) != "" {
		want = "training has no command of its own: rlinf -c FILE.yaml trains"
	} else if ext := filepath.Ext(word); ext == ".yaml" || ext == ".yml" {
		want = "expected -c before the configuration: -c " + word
	}
	return config.Usagef("argument %q: %s", word, want)
}

// nearFile guesses which configuration file the user meant by a path that does not exist. It tries the ending .yaml,
// the folder configs, and files beside it with a similar name. It returns "" if it finds no file.
func nearFile(path string) string {
	configs := filepath.Join("configs", path)
	for _, near := range []string{path + ".yaml", configs, configs + ".yaml"} {
		if info, err := os.Stat(near); err == nil && info.Mode().IsRegular() {
			return near
		}
	}
	folder := filepath.Dir(path)
	files, _ := filepath.Glob(filepath.Join(folder, "*.yaml")) // the pattern is valid, or there is no such folder
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = filepath.Base(f)
	}
	if near := keys.Nearest(filepath.Base(path), names); near != "" {
		return filepath.Join(folder, near)
	}
	return ""
}

// flagNamed returns the flag with this name, or nil if there is none. The name may begin with dashes.
func flagNamed(flags []cli.Flag, name string) cli.Flag {
	for _, f := range flags {
		if slices.Contains(f.Names(), strings.TrimLeft(name, "-")) {
			return f
		}
	}
	return nil
}

// TakesValue reports whether the flag with this name takes a value. The name may begin with dashes.
func TakesValue(flags []cli.Flag, name string) bool {
	f := flagNamed(flags, name)
	_, isBool := f.(*cli.BoolFlag)
	return f != nil && !isBool
}

// Decimal returns value without leading zeros if name is a flag for whole numbers. The library would read a number
// with leading zeros as octal, and the command seq -w writes such numbers.
func Decimal(flags []cli.Flag, name, value string) string {
	switch flagNamed(flags, name).(type) {
	case *cli.IntFlag, *cli.Uint64Flag:
		return keys.WithoutZeros(value)
	}
	return value
}

// FlagError rewrites err, an error of the library about the flags of c. For an unknown flag it suggests the most
// similar flag or configuration key. keys lists all keys of the configuration.
func FlagError(c *cli.Context, err error, keys []string) error {
	if _, name, ok := strings.Cut(err.Error(), "flag provided but not defined: -"); ok {
		return unknownFlag(c, strings.TrimLeft(name, "-"), keys)
	}
	_, name, missing := strings.Cut(err.Error(), "flag needs an argument: -")
	value, rest, wrong := strings.Cut(strings.TrimPrefix(err.Error(), "invalid value "), " for flag -")
	if wrong {
		name, _, _ = strings.Cut(rest, ":")
	}
	switch f := flagNamed(c.Command.Flags, name); {
	case f != nil && missing:
		return fmt.Errorf("%s: expected a value%s", dashed(strings.TrimLeft(name, "-")), usage(f))
	case f != nil && wrong:
		if unquoted, err := strconv.Unquote(value); err == nil {
			value = unquoted
		}
		return fmt.Errorf("%s %s: expected %s%s", dashed(name), value, kind(f), usage(f))
	}
	return err
}

// unknownFlag returns the error for a flag that c does not have. name has no dashes, and settings lists all keys of the
// configuration.
func unknownFlag(c *cli.Context, name string, settings []string) error {
	var names []string
	for _, f := range c.Command.Flags {
		names = append(names, f.Names()...)
	}
	text := "unknown flag " + dashed(name)
	if near := keys.Nearest(name, names); near != "" {
		return fmt.Errorf("%s, did you mean %s?", text, dashed(near))
	}
	key := keys.Likeliest(strings.ReplaceAll(name, "-", "_"), settings)
	if key != "" && TakesValue(c.Command.Flags, "config") {
		return fmt.Errorf("%s: settings are written key=value: did you mean %s=…?", text, key)
	}
	help := "rlinf"
	if c.Command.Name != "" && c.Command.Name != c.App.Name {
		help += " " + c.Command.Name
	}
	return fmt.Errorf("%s: %s --help lists the flags", text, help)
}

// dashed returns a flag with its dashes.
func dashed(name string) string {
	if len(name) == 1 || name == "np" {
		return "-" + name
	}
	return "--" + name
}

// kind describes the values of a flag in words.
func kind(f cli.Flag) string {
	switch f.(type) {
	case *cli.IntFlag, *cli.Int64Flag, *cli.UintFlag, *cli.Uint64Flag:
		return "a whole number"
	case *cli.Float64Flag:
		return "a number"
	case *cli.DurationFlag:
		return "a time with its unit, as 90s"
	case *cli.BoolFlag:
		return "true or false"
	}
	return "another value"
}

// usage returns the meaning of a flag, in brackets.
func usage(f cli.Flag) string {
	if f, ok := f.(cli.DocGenerationFlag); ok && f.GetUsage() != "" {
		return " (" + strings.ReplaceAll(f.GetUsage(), "`", "") + ")"
	}
	return ""
}
