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
	found := cfg.Findings()
	checkExpert(j, found)
	checkVideo(j, found)
	if err := found.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

// checkExpert checks that the environments have an expert, if the algorithm learns from one.
func checkExpert(j *Job, found *config.Findings) {
	if !j.Labelled {
		return
	}
	s, err := play.NewStage(j.Registries.Envs, j.Config.Env.Train, env.Train, 0, 1, 1)
	if err == nil {
		s.Label()
		err = errors.Join(s.Begin(), s.Vec.Close())
	}
	found.Want(err == nil, "env.train.env_type", j.Config.Env.Train.ID(),
		fmt.Sprintf("environments that have an expert "+
			"(loss_type %s): %v", j.Config.Algorithm.LossType, err))
}

// checkVideo checks that the environments of evaluations can be drawn, if they are to be filmed.
func checkVideo(j *Job, found *config.Findings) {
	if !j.Config.Evaluates() {
		return
	}
	err := play.Drawable(j.Registries.Envs, j.Config.Env.Eval)
	found.Want(err == nil, "env.eval.video_cfg", nil, fmt.Sprintf("a view that can be drawn: %v", err))
}
