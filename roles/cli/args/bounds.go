package args

import (
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
	f.Action = func(_ *cli.Context, n int) error {
		if n < least || n > most {
			return outside(f.Name, n, "a number from %d to %d", least, most)
		}
		return nil
	}
	return &f
}

// Float returns f with bounds. NaN, or a number outside of [least, most], is a usage error before the command
// begins.
func Float(f cli.Float64Flag, least, most float64) *cli.Float64Flag {
	f.Action = func(_ *cli.Context, x float64) error {
		if !(x >= least && x <= most) {
			if most == math.MaxFloat64 {
				return outside(f.Name, x, "a finite number")
			}
			return outside(f.Name, x, "a number from %g to %g", least, most)
		}
		return nil
	}
	return &f
}

// Duration returns f with bounds. A time outside of [least, most] is a usage error before the command begins.
func Duration(f cli.DurationFlag, least, most time.Duration) *cli.DurationFlag {
	f.Action = func(_ *cli.Context, d time.Duration) error {
		if d < least || d > most {
			return outside(f.Name, d, "a time from %v to %v", least, most)
		}
		return nil
	}
	return &f
}

// Filled makes flags refuse an empty text. An unset variable of a shell gives an empty text, which would otherwise have
// the effect of no flag.
func Filled(flags []cli.Flag) {
	for _, f := range flags {
		if f, ok := f.(*cli.StringFlag); ok && f.Action == nil {
			f.Action = func(_ *cli.Context, text string) error {
				if text == "" {
					return outside(f.Name, `""`, "a value%s", usage(f))
				}
				return nil
			}
		}
	}
}

func outside(name string, value any, form string, bounds ...any) error {
	expected := fmt.Sprintf(form, bounds...)
	return config.Usagef("%s %v: expected %s", dashed(name), value, expected)
}
