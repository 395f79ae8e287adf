package cli

import (
	"fmt"
	"path/filepath"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/video"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/urfave/cli/v2"
)

func renderFlags() []cli.Flag {
	return []cli.Flag{args.Force(),
		&cli.StringFlag{Name: "out", Usage: "the `FILE` to write, PNG", Value: "initial_states.png"}}
}

// runRender renders the initial states of an evaluation, as the evaluation's film would show them.
func runRender(c *cli.Context, reg config.Registries) error {
	cfg, err := args.Config(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	if err := args.CheckOut(c, "out", c.String("out"), video.IsSheet); err != nil {
		return err
	}
	e := cfg.Env.Eval
	e.VideoCfg.SaveVideo = true
	unrenderable, err := play.Film(reg.Envs, e)
	if unrenderable != "" {
		err = fmt.Errorf("%s has no pictures", unrenderable)
	}
	if err != nil {
		return config.Usagef("env.eval.video_cfg: %w", err)
	}
	n := min(e.VideoCfg.NumEnvs, e.TotalNumEnvs)
	made := n
	if !e.External.IsZero() {
		made = e.TotalNumEnvs // a simulator may refuse a different number of environments
	}
	_, stop := args.Progress(c, "rendering")
	defer stop()
	s, err := play.NewStage(reg.Envs, e, env.Eval, 0, made, 1)
	if err != nil {
		return config.UsageError{Err: err}
	}
	defer s.Vec.Close()
	if err := s.Begin(); err != nil {
		return err
	}
	sheet, err := s.Picture(n)
	if err != nil {
		return err
	}
	out := filepath.Clean(c.String("out"))
	if err := durable.Write(out, sheet.WritePNG); err != nil {
		return err
	}
	stop()
	fmt.Fprintf(c.App.Writer, "%s: %d of %s\n", out, n, s.Vec.Spec().Name)
	return nil
}
