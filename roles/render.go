package roles

import (
	"fmt"
	"path/filepath"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/urfave/cli/v2"
)

func renderFlags() []cli.Flag {
	return []cli.Flag{&cli.StringFlag{Name: "out", Usage: "the `FILE` to write, PNG", Value: "initial_states.png"}}
}

// runRender draws the states that evaluations begin with, looking as their films do.
func runRender(c *cli.Context, reg Registries) error {
	cfg, err := configOf(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	if err := checkOut(c.String("out")); err != nil {
		return err
	}
	e := cfg.Env.Eval
	e.VideoCfg.SaveVideo = true
	if err := drawable(reg.Envs, e); err != nil {
		return UsageError{fmt.Errorf("env.eval.video_cfg: %w", err)}
	}
	n := min(e.VideoCfg.NumEnvs, e.TotalNumEnvs)
	made := n
	if !e.External.IsZero() {
		made = e.TotalNumEnvs // a simulator may play no smaller number
	}
	s, err := newShard(reg.Envs, e, env.Eval, 0, made, 1)
	if err != nil {
		return UsageError{err}
	}
	defer s.vec.Close()
	if err := s.begin(); err != nil {
		return err
	}
	sheet, err := s.picture(n)
	if err != nil {
		return err
	}
	out := filepath.Clean(c.String("out"))
	if err := durable.Write(out, sheet.WritePNG); err != nil {
		return err
	}
	fmt.Fprintf(c.App.Writer, "%s: %d of %s\n", out, n, s.vec.Spec().Name)
	return nil
}
