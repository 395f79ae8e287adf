package args

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// Commands are the last lines of an error. The user may paste them, so they are never cut.
type Commands string

func (c Commands) Error() string { return string(c) }

// Made reports whether a file begins like the files that a command writes. head has the first bytes of the file.
type Made func(head []byte) bool

// Begins returns a Made for files whose beginning matches a regular expression.
func Begins(pattern string) Made { return regexp.MustCompile("^(?:" + pattern + ")").Match }

// Picture returns a Made for plots that rlinf has written as SVG.
func Picture() Made {
	return Begins(`<svg xmlns="http://www\.w3\.org/2000/svg" viewBox="0 0 \d+ \d+" width="\d+" height="\d+" ` +
		`font-family="sans-serif" font-size="12" fill="#222">\n<rect width="100%" height="100%" fill="#fff"/>\n`)
}

// Force returns the flag that CheckOld reads.
func Force() cli.Flag {
	return &cli.BoolFlag{Name: "force", Usage: "replace a file that this command did not write"}
}

// CheckOut returns a usage error if the file of a flag cannot be made, or would replace a file of the user: see
// CheckOld. Commands call CheckOut before they begin their work.
func CheckOut(c *cli.Context, flag, path string, made Made) error {
	if err := durable.Writable(filepath.Dir(path)); err != nil {
		return config.Usagef("--%s %s: expected a file in a folder that can be written: %w", flag, path, err)
	}
	return CheckOld(c, flag, path, made)
}

// CheckOld returns a usage error if path, the output of a flag, is a folder or a file that the command has not made.
// Empty files may be replaced. With --force any file may be replaced.
func CheckOld(c *cli.Context, flag, path string, made Made) error {
	return CheckOldFile(c, fmt.Sprintf("--%s %s", flag, path), "name", path, made)
}

// CheckOldFile is CheckOld for a file that no flag names. The argument where is the beginning of the error. The
// argument other names what the user can change to get another file, such as a key.
func CheckOldFile(c *cli.Context, where, other, path string, made Made) error {
	err := durable.Replaceable(path, made)
	switch {
	case err == nil || errors.Is(err, durable.ErrForeign) && c.Bool("force"):
		return nil
	case errors.Is(err, durable.ErrForeign):
		return config.Usagef("%s: %w: expected another %s, or --force to replace it", where, err, other)
	}
	return config.Usagef("%s: %w", where, err)
}
