package reward

import (
	"fmt"
	"math"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// newEnv makes the rule "env": the environment's own reward.
func newEnv(Setup) (Rule, error) {
	return func(score []float32, b *Batch) error {
		copy(score, b.Reward)
		return nil
	}, nil
}

// newSuccess makes the rule "success": 1 if the environment reports success in any step of the
// transition, otherwise 0.
func newSuccess(s Setup) (Rule, error) {
	column := s.Spec.InfoIndex(s.Config.SuccessInfo)
	if column < 0 {
		return nil, fmt.Errorf("success_info: %s: expected a figure of %s: %s", s.Config.SuccessInfo, s.Spec.Name,
			strings.Join(s.Spec.Info, ", "))
	}
	return func(score []float32, b *Batch) error {
		infos, rows, width := b.Infos.F32(), b.Infos.Dim(1), b.Infos.Dim(2)
		clear(score)
		for i := range len(score) * rows {
			if infos[i*width+column] != 0 {
				score[i/rows] = 1
			}
		}
		return nil
	}, nil
}

// newPotential makes the rule "potential". It rewards progress to states of high Φ without changing the optimal policy
// (Ng, Harada and Russell 1999, "Policy invariance under reward transformations"):
//
//	score = γ Φ(s') (1 - terminated) - Φ(s)
//
// With bootstrap_type always, returns include the value of s' after a termination, too, and the factor
// (1 - terminated) is left out.
func newPotential(s Setup) (Rule, error) {
	p := &s.Config.Potential
	var seen *env.Field
	for i := range s.Spec.Obs {
		if s.Spec.Obs[i].Name == p.Observation {
			seen = &s.Spec.Obs[i]
		}
	}
	if seen == nil || seen.DType != tensor.F32 {
		return nil, fmt.Errorf("potential.observation: %s: expected an observation of %s made of F32", p.Observation,
			s.Spec.Name)
	}
	width := seen.Dim()
	for _, k := range p.Indices {
		if k < 0 || k >= width {
			return nil, fmt.Errorf("potential.indices: %d: expected elements of %s, 0 to %d", k, p.Observation, width-1)
		}
	}
	phi := func(x []float32) float64 {
		var sq float64
		for i, k := range p.Indices {
			d := float64(x[k]) - float64(p.Target[i])
			sq += d * d
		}
		return -math.Sqrt(sq)
	}
	gamma := float64(s.Gamma)
	return func(score []float32, b *Batch) error {
		before, after := b.Obs.Must(p.Observation).F32(), b.Next.Must(p.Observation).F32()
		for i := range score {
			gained := -phi(before[i*width : (i+1)*width])
			if b.Terminated[i] == 0 || s.BootstrapAlways {
				gained += gamma * phi(after[i*width:(i+1)*width])
			}
			score[i] = float32(gained)
		}
		return nil
	}, nil
}

// newModel makes a rule whose score is the network's value of the observation after the step, or the score of a Scorer.
func newModel(s Setup) (Rule, error) {
	if s.Scorer != nil {
		return s.Scorer.rule(s.Config.RewardMode == Terminal), nil
	}
	if s.Network == nil {
		return nil, fmt.Errorf("use_reward_model: true: expected a network")
	}
	work := s.Network.NewWork(s.Rows)
	return func(score []float32, b *Batch) error {
		v, err := s.Network.Value(work, b.Next)
		if err == nil {
			copy(score, v.F32())
		}
		return err
	}, nil
}
