package args

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// MaxCount is the upper bound of flags for numbers of samples, steps or tokens.
const MaxCount = 1 << 30

// Int returns f with bounds. A number outside of [least, most] is a usage error before the command begins.
func Int(f cli.IntFlag, least, most int) *cli.IntFlag {
	f.Action = within(f.Name, least, most, fmt.Sprintf("a number from %d to %d", least, most))
	return &f
}

// Float returns f with bounds. NaN, or a number outside of [least, most], is a usage error before the command
// begins.
func Float(f cli.Float64Flag, least, most float64) *cli.Float64Flag {
	expected := fmt.Sprintf("a number from %g to %g", least, most)
	if most == math.MaxFloat64 {
		expected = "a finite number"
	}
	f.Action = within(f.Name, least, most, expected)
	return &f
}

// Duration returns f with bounds. A time outside of [least, most] is a usage error before the command begins.
func Duration(f cli.DurationFlag, least, most time.Duration) *cli.DurationFlag {
	f.Action = within(f.Name, least, most, fmt.Sprintf("a time from %v to %v", least, most))
	return &f
}

// within returns the action of a flag that refuses NaN and values outside of [least, most].
func within[T cmp.Ordered](name string, least, most T, expected string) func(*cli.Context, T) error {
	return func(_ *cli.Context, x T) error {
		if !(x >= least && x <= most) {
			return refuse(name, x, expected)
		}
		return nil
	}
}

// refuse returns the usage error for a value of a flag.
func refuse(name string, value any, expected string) error {
	return config.Usagef("%s %v: expected %s", dashed(name), value, expected)
}

// Filled makes flags refuse an empty text. Without this check, a flag whose value is an unset shell variable would have
// no effect.
func Filled(flags []cli.Flag) {
	for _, f := range flags {
		if f, ok := f.(*cli.StringFlag); ok && f.Action == nil {
			f.Action = func(_ *cli.Context, text string) error {
				if text == "" {
					return refuse(f.Name, `""`, "a value"+usage(f))
				}
				return nil
			}
		}
	}
}
