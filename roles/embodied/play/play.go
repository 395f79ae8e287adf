package play

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
)

// PlayEpoch plays the steps [t0, t0+n) in s, and records them with rec. The episodes of s must have begun. After each
// step t it calls observed(t), unless observed is nil. It calls Finish before observed(t0+n-1), so that rec then knows
// which episodes have ended.
func PlayEpoch(rec *RolloutBuilder, s *Stage, t0, n int, observed func(t int) error) error {
	for t := t0; t < t0+n; t++ {
		act, err := rec.Act(t, s.Now.Obs, t == t0)
		if err != nil {
			return err
		}
		act.Feed(rec.Space, s.Action.Must(algo.FieldAction))
		if err := s.Step(); err != nil {
			return fmt.Errorf("step %d: %w", t, err)
		}
		if err := rec.Observe(t, s.Now); err != nil {
			return err
		}
		if t == t0+n-1 {
			if err := rec.Finish(t, s.Now.Obs, !s.AutoReset); err != nil {
				return err
			}
		}
		if observed == nil {
			continue
		}
		if err := observed(t); err != nil {
			return fmt.Errorf("step %d: %w", t, err)
		}
	}
	return nil
}

// PlayEpisodes plays episodes in all environments of s. epochs is the number of episodes per environment. The initial
// states are the same in every call.
func (p *EvalPlayer) PlayEpisodes(s *Stage, epochs int) error {
	s.Seeder.Rewind()
	_, space := p.Policy.Spaces()
	for epoch := range epochs {
		if err := s.Begin(); err != nil {
			return err
		}
		p.Begin(epoch)
		for !s.Over() {
			act, err := p.Act(s.Now.Obs)
			if err != nil {
				return err
			}
			act.Feed(space, s.Action.Must(algo.FieldAction))
			if err := s.Step(); err != nil {
				return err
			}
		}
	}
	return nil
}
