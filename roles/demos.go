package roles

import (
	"fmt"
	"path/filepath"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/urfave/cli/v2"
)

func demosFlags() []cli.Flag {
	return []cli.Flag{
		&cli.IntFlag{Name: "episodes", Usage: "`N` episodes to keep", Value: 300},
		&cli.StringFlag{Name: "out", Usage: "the `FILE` to write, safetensors", Value: "demos.safetensors"},
		&cli.Float64Flag{Name: "noise",
			Usage: "standard deviation of the noise `S` added to every number of an action"},
		&cli.BoolFlag{Name: "all", Usage: "keep episodes without success too"},
	}
}

// runDemos writes demonstrations of the environments' own experts.
func runDemos(c *cli.Context, reg Registries) error {
	cfg, err := configOf(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	d := demonstration{episodes: c.Int("episodes"), noise: c.Float64("noise"), all: c.Bool("all"), seed: cfg.Actor.Seed}
	if d.episodes < 1 || d.noise < 0 {
		return UsageError{fmt.Errorf("--episodes %d --noise %g: want a number > 0, and one that is not negative",
			d.episodes, d.noise)}
	}
	if err := checkOut(c.String("out")); err != nil {
		return err
	}
	if err := d.play(reg.Envs, cfg.Env.Train); err != nil {
		return err
	}
	if err := durable.Write(c.String("out"), d.write); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s: %d episodes of %s, %d transitions; the expert succeeded in %d of %d episodes\n",
		filepath.Clean(c.String("out")), d.episodes, d.spec.Name, len(d.kept), d.succeeded, d.played)
	return nil
}
