package algo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
)

// goalFields are the fields of rollouts of two environments with goals of one number.
func goalFields(steps int) []tensor.Field {
	var fields []tensor.Field
	for _, prefix := range []string{"observation.", "next_observation."} {
		for _, name := range []string{"achieved_goal", "desired_goal"} {
			fields = append(fields, tensor.Field{Name: prefix + name, DType: tensor.F32, Shape: []int{steps, 2, 1}})
		}
	}
	return append(fields, transitions(1, steps, 2)[2:]...)
}

// within is a rule like env.SparseGoal for goals of one number and the threshold ½.
func within(achieved, desired []float32) (float32, bool) {
	if d := achieved[0] - desired[0]; d >= -0.5 && d <= 0.5 {
		return 0, true
	}
	return -1, false
}

// A walk is a rollout of one step of two environments, each at a number. An environment goes up by 1 in each step.
type walk struct {
	at, goal [2]float32
}

// add adds a step to r. ends tells how it ends an episode of environment e: the next episode begins at 0.
func (w *walk) add(t *testing.T, r *Replay, ends func(e int) (terminated, truncated byte)) {
	t.Helper()
	d := tensor.NewLayout(goalFields(1)...)
	x := d.Bind(tensor.New(tensor.U8, d.Size()).Bytes())
	for e := range 2 {
		x.Must("observation.achieved_goal").F32()[e], x.Must("observation.desired_goal").F32()[e] = w.at[e], w.goal[e]
		w.at[e]++
		x.Must("next_observation.achieved_goal").F32()[e] = w.at[e]
		x.Must("next_observation.desired_goal").F32()[e] = w.goal[e]
		x.Must("reward").F32()[e], _ = within(w.at[e:], w.goal[e:])
		terminated, truncated := ends(e)
		x.Must("terminated").U8()[e], x.Must("truncated").U8()[e] = terminated, truncated
		if terminated|truncated != 0 {
			w.at[e] = 0
		}
	}
	test.OK(t, r.Add(x))
}

// newGoalReplay returns a Replay with hindsight for the rule within.
func newGoalReplay(t *testing.T, capacity int, strategy string, terminates bool) *Replay {
	t.Helper()
	r := test.Must(NewReplay(goalFields(1), nil, 2, capacity, tensor.Heap))(t)
	r.hindsight = test.Must(newHindsight(HindsightConfig{strategy, 4}, &Goals{within, terminates}, r))(t)
	return r
}

// TestHindsightByHand compares transitions with values by hand. Environment 0 goes from 0 to 3, which terminates the
// episode if goals do (its goal is 3), or else is its time limit. Environment 1 goes from 0 to 4 and goes on.
func TestHindsightByHand(t *testing.T) {
	type want struct {
		reward, discount, next float32
	}
	for _, c := range []struct {
		name       string
		terminates bool
		k, goal    int32 // in environment 0, transitions 0 to 2 end at 1 to 3
		nStep      int
		want       want
	}{
		{"its own goal, away from it", true, 0, ownGoal, 1, want{-1, 0.5, 1}},
		{"its own goal, reached", true, 2, ownGoal, 1, want{0, 0, 3}},
		{"the goal of the same step", true, 0, 0, 1, want{0, 0, 1}},
		{"a later goal", true, 0, 1, 1, want{-1, 0.5, 1}},
		{"an earlier goal: the old termination is none", true, 2, 0, 1, want{-1, 0.5, 3}},
		{"three steps, ended by the new goal in the second", true, 0, 1, 3, want{-1, 0, 2}},
		{"three steps to the final goal", true, 0, 2, 3, want{-1 - 0.5, 0, 3}},
		{"three steps beside an earlier goal, ended by the episode", true, 1, 0, 3, want{-1 - 0.5, 0.25, 3}},
		{"goals do not terminate: the same step", false, 0, 0, 1, want{0, 0.5, 1}},
		{"goals do not terminate: three steps", false, 0, 1, 3, want{-1 + 0 - 0.25, 0.125, 3}},
		{"goals do not terminate: a time limit", false, 2, 0, 3, want{-1, 0.5, 3}},
	} {
		r := newGoalReplay(t, 8, GoalFuture, c.terminates)
		w := walk{goal: [2]float32{3, 9}}
		for step := range 4 {
			w.add(t, r, func(e int) (terminated, truncated byte) {
				if e == 0 && step == 2 {
					return bit(c.terminates), bit(!c.terminates)
				}
				return 0, 0
			})
		}
		b := r.NewBatch(1)
		b.goals[0] = c.goal
		test.OK(t, r.Gather(b, []int32{c.k}, c.nStep, 0.5, false))
		got := want{b.Reward[0], b.Discount[0], b.Next.Must("achieved_goal").F32()[0]}
		test.Equal(t, got, c.want, c.name)
		desired := float32(3)
		if c.goal != ownGoal {
			desired = float32(c.goal + 1)
		}
		test.Equal(t, b.Obs.Must("desired_goal").F32()[0], desired, c.name)
		test.Equal(t, b.Next.Must("desired_goal").F32()[0], desired, c.name)
		test.Equal(t, b.Obs.Must("achieved_goal").F32()[0], float32(c.k), c.name)
	}
}

// TestHindsightOtherEnds: an episode that terminated away from its goal has really ended, whatever the goal.
func TestHindsightOtherEnds(t *testing.T) {
	r := newGoalReplay(t, 4, GoalFuture, true)
	w := walk{goal: [2]float32{9, 9}}
	w.add(t, r, func(int) (byte, byte) { return 0, 0 })
	w.add(t, r, func(int) (byte, byte) { return 1, 0 })
	b := r.NewBatch(1)
	b.goals[0] = 0
	test.OK(t, r.Gather(b, []int32{1}, 1, 0.5, false))
	test.Equal(t, [2]float32{b.Reward[0], b.Discount[0]}, [2]float32{-1, 0})
	test.OK(t, r.Gather(b, []int32{1}, 1, 0.5, true))
	test.Equal(t, b.Discount[0], 0.5, "bootstrap_type always")
}

// TestHindsightChoices: each strategy chooses each of its goals, and no other, in an episode of the steps 2 to 5 of 8.
func TestHindsightChoices(t *testing.T) {
	for strategy, want := range map[string][]int32{GoalFuture: {3, 4, 5}, GoalFinal: {5}, GoalEpisode: {2, 3, 4, 5}} {
		r := newGoalReplay(t, 8, strategy, true)
		var w walk
		for step := range 8 {
			w.add(t, r, func(e int) (byte, byte) { return bit(step == 5), bit(step == 1) })
		}
		s := philox.New(1, philox.Hindsight, 0, 0)
		var chosen []int32
		own := 0
		const draws = 1000
		for range draws {
			goals := make([]int32, 1)
			if r.hindsight.draw(goals, []int32{8 + 3}, &s); goals[0] == ownGoal {
				own++
			} else if !slices.Contains(chosen, goals[0]) {
				chosen = append(chosen, goals[0])
			}
		}
		slices.Sort(chosen)
		for i := range want {
			want[i] += 8 // the numbers of environment 1
		}
		test.EqualSlices(t, chosen, want, strategy)
		if own < draws/5-65 || own > draws/5+65 { // five deviations
			t.Errorf("%s: %d of %d transitions keep their goal, expected about a fifth", strategy, own, draws)
		}
	}
}

// TestHindsightProperty compares batches of random episodes with a plain version, while the rings wrap around. Episodes
// are numbered, and goals are unique within an episode, so that the goal names the step that achieved it.
func TestHindsightProperty(t *testing.T) {
	const capacity, steps = 17, 60
	type step struct {
		episode               int
		before, after, goal   float32
		terminated, truncated bool
	}
	for _, strategy := range []string{GoalFuture, GoalFinal, GoalEpisode} {
		for _, terminates := range []bool{false, true} {
			t.Run(fmt.Sprint(strategy, terminates), func(t *testing.T) {
				r := newGoalReplay(t, capacity, strategy, terminates)
				random := philox.New(3, philox.Reset, 0, 0)
				w := walk{goal: [2]float32{3, 5}}
				var told [2][]step
				var episode [2]int
				b, rows := r.NewBatch(64), make([]int32, 64)
				relabelled := 0
				for n := range steps {
					before := w.at
					var now [2]step
					w.add(t, r, func(e int) (byte, byte) {
						now[e] = step{episode[e], before[e], before[e] + 1, w.goal[e],
							terminates && before[e]+1 == w.goal[e] || random.IntN(9) == 0, random.IntN(6) == 0}
						return bit(now[e].terminated), bit(now[e].truncated)
					})
					for e := range 2 {
						told[e] = append(told[e], now[e])
						if now[e].terminated || now[e].truncated {
							episode[e]++
							w.goal[e] = float32(1 + random.IntN(6))
						}
					}
					s := philox.New(1, philox.Replay, 0, uint64(n))
					r.Draw(rows, &s)
					r.hindsight.draw(b.goals, rows, &s)
					nStep := 1 + n%3
					test.OK(t, r.Gather(b, rows, nStep, 0.5, false))
					for i, k := range rows {
						all := told[int(k)/r.Size()]
						held := all[len(all)-r.Size():]
						at := int(k) % r.Size()
						own := held[at]
						goal := b.Obs.Must("desired_goal").F32()[i]
						test.Equal(t, b.Next.Must("desired_goal").F32()[i], goal)
						if b.goals[i] == ownGoal {
							test.Equal(t, goal, own.goal)
						} else {
							relabelled++
							var episode []step
							for j, s := range held {
								if s.episode == own.episode && (j >= at || strategy == GoalEpisode) {
									episode = append(episode, s)
								}
							}
							if strategy == GoalFinal {
								episode = episode[len(episode)-1:]
							}
							if !slices.ContainsFunc(episode, func(s step) bool { return s.after == goal }) {
								t.Fatalf("goal %v of %+v: not among %+v", goal, own, episode)
							}
						}
						reward, discount, last := float32(0), float32(1), own
						for _, s := range held[at:min(at+nStep, len(held))] {
							last = s
							x, reached := within([]float32{s.after}, []float32{goal})
							reward += discount * x
							discount *= 0.5
							byGoal := terminates && s.after == s.goal
							if terminates && reached || s.terminated && !byGoal {
								discount = 0
								break
							}
							if s.terminated || s.truncated {
								break
							}
						}
						got := [3]float32{b.Reward[i], b.Discount[i], b.Next.Must("achieved_goal").F32()[i]}
						test.Equal(t, got, [3]float32{reward, discount, last.after}, "goal %v of %+v", goal, own)
					}
				}
				if relabelled < 64*steps/2 {
					t.Errorf("%d of %d goals were replaced", relabelled, 64*steps)
				}
			})
		}
	}
}

func bit(b bool) byte {
	if b {
		return 1
	}
	return 0
}

func TestHindsightAllocatesNothing(t *testing.T) {
	r := newGoalReplay(t, 8, GoalFuture, true)
	var w walk
	for range 8 {
		w.add(t, r, func(int) (byte, byte) { return 0, 0 })
	}
	b, rows := r.NewBatch(4), []int32{0, 3, 9, 15}
	s := philox.New(1, philox.Hindsight, 0, 0)
	test.NoAllocs(t, 10, func() {
		r.hindsight.draw(b.goals, rows, &s)
		test.OK(t, r.Gather(b, rows, 3, 0.9, false))
	})
}

// TestHindsightNeedsGoals: the names are those of package env, and environments without goals are refused.
func TestHindsightNeedsGoals(t *testing.T) {
	test.Equal(t, achievedGoal, env.AchievedGoal)
	test.Equal(t, desiredGoal, env.DesiredGoal)
	cfg := HindsightConfig{GoalFuture, 4}
	_, err := newHindsight(cfg, nil, mustReplay(t, 1, 4))
	test.Fails(t, err, "environments without goals")
	_, err = newHindsight(cfg, &Goals{within, true}, mustReplay(t, 1, 4))
	test.Fails(t, err, "_goal is")
}
