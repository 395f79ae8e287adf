package roles

import "fmt"

// playEpoch plays n steps in s, whose episodes have begun, into the trajectories of rec from time
// first on. observed, when not nil, is called when a step has been recorded.
func playEpoch(rec *recorder, s *shard, first, n int, observed func(t int) error) error {
	for t := first; t < first+n; t++ {
		act, err := rec.act(t, s.now.Obs, t == first)
		if err != nil {
			return err
		}
		act.Feed(rec.space, s.action.Must("action"))
		if err := s.step(); err != nil {
			return fmt.Errorf("step %d: %w", t, err)
		}
		if err := rec.observe(t, s.now); err != nil {
			return err
		}
		if observed == nil {
			continue
		}
		if err := observed(t); err != nil {
			return fmt.Errorf("step %d: %w", t, err)
		}
	}
	return rec.finish(first+n-1, s.now.Obs, !s.autoReset)
}

// playEpisodes plays one episode in each environment of s, from the same initial states every time.
func (p *performer) playEpisodes(s *shard) error {
	s.seeder.Rewind()
	if err := s.begin(); err != nil {
		return err
	}
	p.begin()
	_, space := p.policy.Spaces()
	for !s.over() {
		act, err := p.act(s.now.Obs)
		if err != nil {
			return err
		}
		act.Feed(space, s.action.Must("action"))
		if err := s.step(); err != nil {
			return err
		}
	}
	return nil
}
