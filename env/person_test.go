package env_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// A guide is a counter whose expert never ends an episode.
type guide struct{ *counter }

func (c guide) Act(action tensor.Tensor) error {
	for n, x := range c.state {
		action.F32()[n] = x / 10
	}
	return nil
}

func guided(n int, cfg env.PersonConfig) *env.Person {
	return env.NewPerson(env.NewEpisodic(guide{&counter{state: make([]float32, n)}}, env.DefaultConfig()), cfg)
}

// TestPerson: where the person acts, the expert's action is taken, and the step has it. Elsewhere the policy's action
// is taken. The person acts in about its share of the steps of the first episodes, leaves then, and goes on after a
// load.
func TestPerson(t *testing.T) {
	t.Parallel()
	const n, share, episodes = 200, 0.3, 2
	v := guided(n, env.PersonConfig{Share: share, Episodes: episodes})
	if !v.Spec().Intervene {
		t.Fatal("nobody may act")
	}
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = uint64(i + 1) // also of later episodes
	}
	out, none, acted := begin(t, v, 1, seeds...), actions(1, make([]float32, n)...), 0
	play := func(steps int) (flags []byte) {
		for range steps {
			before := out.Obs.Must("state").Clone()
			step(t, v, out, none, seeds...)
			for e, x := range out.Intervened.U8() {
				want, taken, reward := float32(x)*before.F32()[e]/10, out.Taken.F32()[e], out.Reward.F32()[e]
				if reward != want || taken != want {
					t.Fatalf("environment %d: acted %d, taken %v, reward %v, want %v", e, x, taken, reward, want)
				}
				acted += int(x)
			}
			flags = append(flags, out.Intervened.U8()...)
		}
		return flags
	}
	play(3)
	saved, seen := test.Must(v.Save())(t), out.Obs.Clone()
	first := play(7) // the rest of two episodes of 5 steps
	if got := float64(acted) / (n * 10); got < share-0.06 || got > share+0.06 {
		t.Errorf("the person acts in %.2f of the steps", got)
	}
	if later := play(5); slices.Max(later) > 0 {
		t.Errorf("a person acts in episode %d", episodes+1)
	}
	test.OK(t, v.Load(saved))
	out.Obs.CopyFrom(seen)
	test.EqualSlices(t, play(7), first, "steps after a load")

	all := guided(1, env.PersonConfig{Share: 1})
	out, none = begin(t, all, 1, 1), actions(1, 0)
	for i := range 7 { // the episode ends after 5 steps, and no other begins
		step(t, all, out, none)
		wantU8(t, "intervened", out.Intervened, byte(min(1, 5/(i+1))))
	}
	test.Fails(t, all.Step(actions(2, 0, 0), nil, all.Spec().NewStep(1, 2)), "chunks of 2 actions: expected 1")
	w := env.NewPerson(newCounter(env.DefaultConfig(), 1), env.PersonConfig{Share: 1})
	if err := w.Step(none, nil, begin(t, w, 1, 1)); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("without an expert: %v", err)
	}
}
