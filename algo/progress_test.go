package algo

import (
	"testing"

	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// TestProgress: an update counts its micro-batches to the last one, and allocates nothing for it.
func TestProgress(t *testing.T) {
	type count struct{ done, total, moves int }
	var last map[string]count
	report := func(what string, done, total int) {
		c := last[what]
		if done < c.done && done > 0 || done > total {
			t.Errorf("%s: %d of %d after %d", what, done, total, c.done)
		}
		if done > c.done {
			c.moves++
		}
		last[what] = count{done, total, c.moves}
	}
	micro := func(s *Setup, _ *policy.Config) { s.MicroBatch, s.Progress = 16, report }
	for name, c := range map[string]struct {
		update func() error
		want   map[string]count
	}{
		"ppo": {func() error {
			p := mustPPO(t, setup(func(s *Setup) { s.MicroBatch, s.Progress = 8, report }))
			r := randomRollout(1, 16, 0, 8)
			if err := p.Prepare(&r); err != nil {
				return err
			}
			_, err := p.Update(r)
			return err
		}, map[string]count{"update": {32, 32, 32}}},
		"sac": {func() error {
			s := sacSetup(t, micro)
			a, err := NewSAC(s)
			if err != nil {
				return err
			}
			runTrack(t, a, s, newTrack(s.Envs), 0, 4) // only the last has updates
			return nil
		}, map[string]count{"update": {32, 32, 32}}},
		"bc": {func() error {
			share := func(s *Setup, _ *policy.Config) { s.Config.OffPolicy.Demos.ValidationShare = 0.2 }
			b, err := NewBC(bcSetup(t, micro, share))
			if err != nil {
				return err
			}
			_, err = b.Update(tensor.Dict{})
			return err
		}, map[string]count{"update": {32, 32, 32}, "validation": {20, 20, 2}}},
	} {
		last = map[string]count{}
		if err := c.update(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for what, want := range c.want {
			if last[what] != want {
				t.Errorf("%s: %s %v, expected %v", name, what, last[what], want)
			}
		}
	}
	Progress(nil).Report("update", 1, 2) // is ignored
}
