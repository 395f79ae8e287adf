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

// Int returns f with bounds. A number outside of [low, high] is a usage error before the command begins.
func Int(f cli.IntFlag, low, high int) *cli.IntFlag {
	f.Action = checkBounds(f.Name, low, high, fmt.Sprintf("a number from %d to %d", low, high))
	return &f
}

// Float returns f with bounds. NaN, or a number outside of [low, high], is a usage error before the command begins.
func Float(f cli.Float64Flag, low, high float64) *cli.Float64Flag {
	expected := fmt.Sprintf("a number from %g to %g", low, high)
	if high == math.MaxFloat64 {
		expected = "a finite number"
	}
	f.Action = checkBounds(f.Name, low, high, expected)
	return &f
}

// Duration returns f with bounds. A time outside of [low, high] is a usage error before the command begins.
func Duration(f cli.DurationFlag, low, high time.Duration) *cli.DurationFlag {
	f.Action = checkBounds(f.Name, low, high, fmt.Sprintf("a time from %v to %v", low, high))
	return &f
}

// checkBounds returns the action of a flag. The action refuses NaN and values outside of [low, high].
func checkBounds[T cmp.Ordered](name string, low, high T, expected string) func(*cli.Context, T) error {
	return func(_ *cli.Context, x T) error {
		if !(x >= low && x <= high) {
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
