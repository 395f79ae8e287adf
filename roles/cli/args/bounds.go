package args

import (
	"fmt"
	"math"
	"time"

	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// MaxCount bounds flags that count what has no bound of its own: samples, steps, tokens.
const MaxCount = 1 << 30

// Int returns f for numbers from least to most. Others are usage errors, before the command begins.
func Int(f cli.IntFlag, least, most int) *cli.IntFlag {
	f.Action = func(_ *cli.Context, n int) error {
		if n < least || n > most {
			return outside(f.Name, n, "a number from %d to %d", least, most)
		}
		return nil
	}
	return &f
}

// Float returns f for numbers from least to most. Others, NaN among them, are usage errors, before
// the command begins.
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

// Duration returns f for times from least to most. Others are usage errors, before the command
// begins.
func Duration(f cli.DurationFlag, least, most time.Duration) *cli.DurationFlag {
	f.Action = func(_ *cli.Context, d time.Duration) error {
		if d < least || d > most {
			return outside(f.Name, d, "a time from %v to %v", least, most)
		}
		return nil
	}
	return &f
}

// Filled has the texts of flags be usage errors where they are empty, as that of an unset variable of a
// shell is: it would count as if the flag were not there.
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
	return config.UsageError{Err: fmt.Errorf("%s %v: expected %s", dashed(name), value, expected)}
}
