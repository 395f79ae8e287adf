package env_test

import (
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
)

func TestSeederPlacement(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.Seed = 5
	whole := env.NewSeeder(cfg, env.Train, 0, 6)
	for range 3 {
		part := env.NewSeeder(cfg, env.Train, 2, 3)
		if got, want := part.Next(), whole.Next()[2:5]; !slices.Equal(got, want) {
			t.Errorf("seeds of environments 2..4: %v, want %v", got, want)
		}
		cfg.Seed++
		whole = env.NewSeeder(cfg, env.Train, 0, 6)
	}
	seen := map[uint64]bool{}
	for range 4 {
		for _, s := range whole.Next() {
			if seen[s] {
				t.Errorf("seed %d twice", s)
			}
			seen[s] = true
		}
		whole.Started(nil)
	}
	for _, s := range env.NewSeeder(cfg, env.Eval, 0, 6).Next() {
		if seen[s] {
			t.Errorf("evaluation has a seed of training: %d", s)
		}
	}
}

// TestInitialStates compares the number of initial states with the seeds of a Seeder.
func TestInitialStates(t *testing.T) {
	for _, c := range []struct {
		group  int
		fixed  bool
		n, per int
		want   int
	}{{1, false, 6, 2, 12}, {4, false, 16, 1, 4}, {4, false, 6, 3, 6}, {1, true, 5, 3, 5}, {2, true, 5, 3, 3}} {
		cfg := env.DefaultConfig()
		cfg.GroupSize, cfg.UseFixedResetStateIDs = c.group, c.fixed
		seeder, seen := env.NewSeeder(cfg, env.Eval, 0, c.n), map[uint64]bool{}
		for range c.per {
			for _, seed := range seeder.Next() {
				seen[seed] = true
			}
			seeder.Started(nil)
		}
		if got := cfg.InitialStates(c.n, c.per); got != len(seen) || got != c.want {
			t.Errorf("%+v: %d initial states, the Seeder has %d", c, got, len(seen))
		}
	}
}

func TestSeederGroups(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.GroupSize = 3
	s := env.NewSeeder(cfg, env.Train, 3, 6)
	v := newCounter(env.DefaultConfig(), 6)
	out := v.Spec().NewStep(6, 1)
	first := slices.Clone(s.Next())
	if first[0] != first[1] || first[0] != first[2] || first[0] == first[3] || first[3] != first[5] {
		t.Fatalf("seeds of two groups of three: %v", first)
	}
	test.OK(t, v.Reset(nil, s.Next(), out))
	s.Started(nil)
	second := slices.Clone(s.Next())
	step(t, v, out, actions(1, 1, 100, 1, 1, 1, 100), s.Next()...)
	s.Observe(out)
	for n, seed := range s.Next() {
		if advanced := seed != second[n]; advanced != (n == 1 || n == 5) {
			t.Errorf("environment %d: advanced %v", n, advanced)
		}
	}
	// the second episode of a group differs from the first, also for an environment that begins it later
	if s.Next()[1] == s.Next()[0] {
		t.Error("episodes 1 and 2 have the same seed")
	}
	step(t, v, out, actions(1, 100, 1, 1, 1, 1, 1), s.Next()...)
	s.Observe(out)
	if s.Next()[0] != s.Next()[1] {
		t.Error("members of a group at the same episode have other seeds")
	}

	state := test.Must(s.Save())(t)
	again := env.NewSeeder(cfg, env.Train, 3, 6)
	if err := again.Load(state); err != nil || !slices.Equal(again.Next(), s.Next()) {
		t.Errorf("loaded: %v %v, want %v", again.Next(), err, s.Next())
	}
	s.Rewind()
	test.EqualSlices(t, s.Next(), first, "rewound")
}

func TestSeederFixed(t *testing.T) {
	cfg := env.DefaultConfig()
	cfg.UseFixedResetStateIDs = true
	s := env.NewSeeder(cfg, env.Train, 0, 4)
	first := slices.Clone(s.Next())
	s.Started([]bool{true, false, true, true})
	if !slices.Equal(s.Next(), first) {
		t.Errorf("second episodes: %v, want those of the first: %v", s.Next(), first)
	}
}
