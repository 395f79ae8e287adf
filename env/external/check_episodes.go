package external

import (
	"fmt"
	"time"
)

// short is the max_steps for rules that need several episodes.
const short = 7

// played starts a child, configures it with the setup s, takes the given number of steps, and
// returns the outcomes of each environment. If resets is true, environments reset themselves.
func (k *checker) played(s setup, steps int, resets bool) (outcomes [][]outcome, err error) {
	err = k.with(s, func(t *trial) (err error) {
		outcomes, err = t.playAnew(steps, resets)
		return err
	})
	return outcomes, err
}

// sameEpisodes returns a check that starts a child with each setup, and compares the outcomes of the two children. In
// the second child, environments reset themselves. In the first child, they do so only if resets is true.
func sameEpisodes(one, other setup, resets bool) func(*checker) error {
	return func(k *checker) error {
		want, err := k.played(one, k.Steps, resets)
		if err != nil {
			return err
		}
		return k.with(other, func(t *trial) error {
			got, err := t.playAnew(k.Steps, true)
			if err != nil {
				return err
			}
			return t.compare(got, want)
		})
	}
}

func (k *checker) sameByBell() error {
	s := setup{shareMemory: true, maxSteps: short}
	want, err := k.played(setup{shareMemory: true, maxSteps: short, noBells: true}, k.Steps, true)
	if err != nil {
		return err
	}
	return k.with(s, func(t *trial) error {
		if !t.shared {
			return notSpoken("READY without SHARED: there are no bells")
		}
		if err := t.resetAll(); err != nil {
			return err
		}
		got := make([][]outcome, t.n)
		for n := range k.Steps {
			if n%5 == 0 {
				time.Sleep(time.Millisecond) // the child stops polling and blocks
			}
			t.stream.spin.sleeps = n % 3 // sometimes this side does not poll
			if err := t.turn(t.all(), true, got); err != nil {
				return err
			}
		}
		return t.compare(got, want)
	})
}

func (k *checker) several() error {
	if k.n == 1 {
		return notSpoken("a child plays one environment")
	}
	return nil
}

func (k *checker) repeatsInEveryRow() error {
	if err := k.several(); err != nil {
		return err
	}
	return k.with(setup{shareMemory: true, maxSteps: short}, func(t *trial) error {
		t.alike = true
		got, err := t.playAnew(k.Steps, true)
		if err != nil {
			return err
		}
		want := make([][]outcome, t.n)
		for n := range want {
			want[n] = got[0]
		}
		return t.compare(got, want)
	})
}

// repeatsAfterOthers plays the same seeds and actions twice in a child, with other episodes in between.
func (k *checker) repeatsAfterOthers() error {
	return k.with(setup{shareMemory: true, maxSteps: short}, func(t *trial) error {
		want, err := t.playAnew(k.Steps, true)
		if err != nil {
			return err
		}
		clear(t.episode)
		clear(t.steps)
		got, err := t.playAnew(k.Steps, true)
		if err != nil {
			return err
		}
		return t.compare(got, want)
	})
}

func (k *checker) takesEverySeed() error {
	return k.with(setup{shareMemory: true}, func(t *trial) error {
		for _, seed := range []uint64{0, 1<<31 - 1, 1 << 31, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
			for n := range t.seed {
				t.seed[n] = int64(seed)
			}
			if err := t.exchange(reset, 0, t.all()); err != nil {
				return fmt.Errorf("seed %d: %w", seed, err)
			}
		}
		return nil
	})
}

func (k *checker) resetsByMask() error {
	if err := k.several(); err != nil {
		return err
	}
	s := setup{shareMemory: true}
	want, err := k.played(s, 6, true)
	if err != nil {
		return err
	}
	return k.with(s, func(t *trial) error {
		first, err := t.playAnew(3, true)
		if err != nil {
			return err
		}
		mask := make([]byte, t.n)
		mask[0] = 1
		if err := t.keeping(reset, 0, mask); err != nil {
			return err
		}
		t.episode[0]++
		rest, err := t.play(3, true)
		if err != nil {
			return err
		}
		for n := range first {
			if first[n] = append(first[n], rest[n]...); n == 0 {
				first[n] = want[n]
			}
		}
		return t.compare(first, want)
	})
}

func (k *checker) stepsByMask() error {
	if err := k.several(); err != nil {
		return err
	}
	s := setup{shareMemory: true, maxSteps: short}
	want, err := k.played(s, k.Steps, false)
	if err != nil {
		return err
	}
	return k.with(s, func(t *trial) error {
		if err := t.resetAll(); err != nil {
			return err
		}
		first, others := make([]byte, t.n), t.all()
		first[0], others[0] = 1, 0
		got := make([][]outcome, t.n)
		for range 2 * k.Steps { // environment 0 stays about three steps behind the others
			mask := others
			if len(got[1]) == k.Steps || len(got[0])+3 <= len(got[1]) {
				mask = first
			}
			if err := t.turn(mask, false, got); err != nil {
				return err
			}
		}
		return t.compare(got, want)
	})
}

func (k *checker) countsSteps() error {
	return k.with(setup{shareMemory: true, maxSteps: short}, func(t *trial) error {
		played, err := t.playAnew(max(k.Steps, 3*short), true)
		for n, steps := range played {
			length := 0
			for i, o := range steps {
				length++
				if length == short && o.truncated == 0 {
					return fmt.Errorf("environment %d, step %d: step %d of its episode, and truncated is 0: "+
						"expected 1 with max_steps %d", n, i, length, short)
				}
				if o.over() {
					length = 0
				}
			}
		}
		return err
	})
}

func (k *checker) ignoresTerminations() error {
	if k.greeting.OwnsLoop {
		return notSpoken("the solver owns its loop")
	}
	return k.with(setup{shareMemory: true, ignoreTerminations: true, maxSteps: k.greeting.MaxSteps},
		func(t *trial) error {
			played, err := t.playAnew(k.Steps, true)
			for n, steps := range played {
				for i, o := range steps {
					if o.terminated != 0 {
						return fmt.Errorf("environment %d, step %d: terminated is 1, expected 0 with flag 1 of CONFIG",
							n, i)
					}
				}
			}
			return err
		})
}
