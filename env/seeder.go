package env

import (
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// A Use says what environments are for: training or evaluation. The two have different initial states.
type Use uint8

const (
	Train Use = iota
	Eval
)

// A Seeder draws the seeds of the episodes of environments [first, first+n). A seed depends only on
// the job's seed, the environment's group and the episode's number, not on the placement.
type Seeder struct {
	seed    uint64
	purpose philox.Purpose
	group   int
	fixed   bool
	first   int
	episode tensor.Tensor // I64 [n]: number of each environment's next episode
	next    []uint64
}

// NewSeeder returns a Seeder for n environments, with Seed, GroupSize and UseFixedResetStateIDs of
// cfg. Environment i has the global index first+i.
func NewSeeder(cfg Config, use Use, first, n int) *Seeder {
	s := &Seeder{
		seed: cfg.Seed, purpose: philox.Reset, group: max(cfg.GroupSize, 1), fixed: cfg.UseFixedResetStateIDs,
		first:   first,
		episode: tensor.New(tensor.I64, n), next: make([]uint64, n),
	}
	if use == Eval {
		s.purpose = philox.EvalReset
	}
	s.drawAll()
	return s
}

// InitialStates returns the number of different initial states in n environments that play the given number of episodes
// each. The environments have the global indices 0 to n-1.
func (c Config) InitialStates(n, episodes int) int {
	group := max(c.GroupSize, 1)
	groups := (n + group - 1) / group
	if c.UseFixedResetStateIDs {
		return groups
	}
	return groups * episodes
}

// Next returns the seed of each environment's next episode. The Seeder owns the slice, and changes
// it when an episode begins.
func (s *Seeder) Next() []uint64 { return s.next }

// Started records that a Reset with this mask began episodes with the seeds of Next.
func (s *Seeder) Started(mask []bool) {
	for n := range s.next {
		if mask == nil || mask[n] {
			s.advance(n)
		}
	}
}

// Observe records a Step that got the seeds of Next: each environment whose episode ended has begun
// a new episode.
func (s *Seeder) Observe(step *Step) {
	f := step.flags()
	for n := range s.next {
		if _, ended := f.took(n); ended {
			s.advance(n)
		}
	}
}

// Rewind returns to the first episode in all environments, so that every evaluation has the same
// episodes.
func (s *Seeder) Rewind() {
	s.episode.Zero()
	s.drawAll()
}

// Save returns a copy of the episode numbers, [n].
func (s *Seeder) Save() (tensor.Dict, error) {
	var d tensor.Dict
	s.memory().save(&d)
	return d, nil
}

// Load puts back what Save returned.
func (s *Seeder) Load(state tensor.Dict) error {
	if err := s.memory().load(state); err != nil {
		return err
	}
	s.drawAll()
	return nil
}

func (s *Seeder) memory() memory { return memory{{"seeder.episode", s.episode}} }

func (s *Seeder) advance(n int) {
	s.episode.I64()[n]++
	s.draw(n)
}

func (s *Seeder) drawAll() {
	for n := range s.next {
		s.draw(n)
	}
}

// draw computes the seed of environment n's next episode.
func (s *Seeder) draw(n int) {
	episode := uint64(s.episode.I64()[n])
	if s.fixed {
		episode = 0
	}
	r := philox.New(s.seed, s.purpose, uint64((s.first+n)/s.group), episode)
	s.next[n] = r.Uint64()
}
