package args

import (
	"github.com/rlinf/rlinf/internal/results"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/urfave/cli/v2"
)

// Mode returns the flag that says which values of the metric are better.
func Mode() cli.Flag {
	return &cli.StringFlag{Name: "mode", Usage: "whether the best value of the metric is its `MODE`: min or max",
		DefaultText: "min for a loss, else max"}
}

// ModeOf returns the value of the flag Mode, or its default for a metric.
func ModeOf(c *cli.Context, metric string) (string, error) {
	switch mode := c.String("mode"); mode {
	case "":
		return results.ModeOf(metric), nil
	case results.ModeMin, results.ModeMax:
		return mode, nil
	default:
		return "", config.Usagef("--mode %s: expected min or max", mode)
	}
}
