package cli

import (
	"fmt"
	"path/filepath"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/trainer"
	"github.com/urfave/cli/v2"
)

func demosFlags() []cli.Flag {
	return []cli.Flag{
		args.Int(cli.IntFlag{Name: "episodes", Usage: "number `N` of episodes to keep", Value: 300}, 1, args.MaxCount),
		&cli.StringFlag{Name: "out", Usage: "the `FILE` to write, safetensors", Value: "demos.safetensors"},
		args.Force(),
		args.Float(cli.Float64Flag{Name: "noise",
			Usage: "standard deviation of the noise `S` added to every number of an action"}, 0, 1e6),
		&cli.BoolFlag{Name: "clean", Usage: "write the expert's own actions without the noise"},
		args.Float(cli.Float64Flag{Name: "still",
			Usage: "leave out steps whose action is smaller than `S` and whose last " +
				"number is that of the step before"}, 0, 1e6),
		&cli.StringFlag{Name: "film",
			Usage: "film the expert in env.eval into `FILE`: .png, or with ffmpeg .gif, .mp4 or .webm"},
		&cli.BoolFlag{Name: "all", Usage: "also keep episodes without success"},
	}
}

// runDemos records demonstrations of the environments' experts.
func runDemos(c *cli.Context, reg config.Registries) error {
	cfg, err := args.Config(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	d := trainer.Demonstration{Episodes: c.Int("episodes"), Noise: c.Float64("noise"), Still: c.Float64("still"),
		All: c.Bool("all"), Clean: c.Bool("clean"), NoNext: !cfg.Algorithm.LooksAhead(),
		Seed: cfg.Actor.Seed}
	if err := args.CheckOut(c, "out", c.String("out"), algo.IsDemos); err != nil {
		return err
	}
	film := c.String("film")
	if film != "" {
		if err := args.CheckOut(c, "film", film, video.IsFilm); err != nil {
			return err
		}
	}
	progress, stop := args.Progress(c, "filming")
	defer stop()
	if film != "" {
		if err := trainer.FilmExpert(reg.Envs, cfg.Env.Eval, film); err != nil {
			return err
		}
	}
	progress.Phase("demonstration")
	d.Progress = progress.Counter()
	d.Progress.Report("demonstration", 0, d.Episodes)
	if err := d.Play(reg.Envs, cfg.Env.Train); err != nil {
		return err
	}
	progress.Phase("writing " + filepath.Clean(c.String("out")))
	if err := d.Write(c.String("out")); err != nil {
		return err
	}
	stop()
	fmt.Fprintf(c.App.Writer, "%s: %d episodes of %s, %d transitions; the expert succeeded in %d of %d episodes\n",
		filepath.Clean(c.String("out")), d.Episodes, d.Spec.Name, len(d.Kept), d.Succeeded, d.Played)
	if a := &cfg.Algorithm; d.Omitted > 0 {
		fmt.Fprintf(c.App.Writer, "--still %g left out %d steps\n", d.Still, d.Omitted)
		if n := a.OffPolicy.NStep; n > 1 && a.LooksAhead() {
			fmt.Fprintf(c.App.ErrWriter, "warning: --still %g: algorithm.n_step %d adds up rewards of successive "+
				"steps, and %d steps are missing: expected n_step 1, or demonstrations without --still\n", d.Still, n,
				d.Omitted)
		}
	}
	return nil
}
