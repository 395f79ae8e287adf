package roles

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// startJob makes the job of cfg, and sees that its environments can do what it asks of them.
func startJob(cfg *Config, reg Registries, nodes []int) (*job, error) {
	j, err := newJob(cfg, reg, nodes)
	if err != nil {
		return nil, err
	}
	found := cfg.findings()
	checkExpert(j, found)
	checkVideo(j, found)
	if err := found.Err(); err != nil {
		return nil, err
	}
	return j, nil
}

// checkExpert checks that the environments have an expert, where it is to be learnt from.
func checkExpert(j *job, found *Findings) {
	if !j.labelled {
		return
	}
	s, err := newShard(j.reg.Envs, j.cfg.Env.Train, env.Train, 0, 1, 1)
	if err == nil {
		s.label()
		err = errors.Join(s.begin(), s.vec.Close())
	}
	found.Want(err == nil, "env.train.env_type", j.cfg.Env.Train.ID(), fmt.Sprintf("environments that have an expert "+
		"(loss_type %s): %v", j.cfg.Algorithm.LossType, err))
}

// checkVideo checks that the environments of evaluations can be drawn, where they are to be filmed.
func checkVideo(j *job, found *Findings) {
	if !j.cfg.Evaluates() {
		return
	}
	err := drawable(j.reg.Envs, j.cfg.Env.Eval)
	found.Want(err == nil, "env.eval.video_cfg", nil, fmt.Sprintf("a view that can be drawn: %v", err))
}
