package job

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/play"
)

// NewChecked makes the job of cfg, and checks that its environments have the expert and the
// pictures that it asks for.
func NewChecked(cfg *config.Config, reg config.Registries, nodes []int) (*Job, error) {
	j, err := New(cfg, reg, nodes)
	if err != nil || cfg.FineTunes() {
		return j, err
	}
	d := draft{Job: j, found: cfg.Findings()}
	d.checkAbilities()
	if err := d.found.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

// checkAbilities checks what environments are asked for beyond being played. It leaves out those
// that could not be made.
func (d *draft) checkAbilities() {
	if d.Spec.Name != "" {
		d.checkExpert()
	}
	if d.EvalSpec.Name != "" {
		d.checkVideo()
	}
}

// checkExpert checks that the environments have an expert, if the algorithm learns from one.
func (d *draft) checkExpert() {
	if !d.Labelled || !d.Config.Trains() {
		return
	}
	s, err := play.NewStage(d.Registries.Envs, d.Config.Env.Train, env.Train, 0, 1, 1)
	if err == nil {
		s.Label()
		err = errors.Join(s.Begin(), s.Vec.Close())
	}
	d.found.Want(err == nil, "env.train.env_type", d.Config.Env.Train.ID(),
		fmt.Sprintf("environments that have an expert "+
			"(loss_type %s): %v", d.Config.Algorithm.LossType, err))
}

// checkVideo checks that the environments of evaluations can be drawn, if they are to be filmed.
func (d *draft) checkVideo() {
	var err error
	d.Undrawn, err = play.Film(d.Registries.Envs, d.Config.Env.Eval)
	d.found.Want(err == nil, "env.eval.video_cfg", nil, fmt.Sprintf("a view that can be drawn: %v", err))
}
