package algo

import (
	"fmt"

	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// HindsightConfig is the section algorithm.replay_buffer.hindsight: transitions are also learnt from as if the goal had
// been one that the episode achieved (hindsight experience replay, Andrychowicz et al. 2017, arXiv:1707.01495). It
// needs environments with goals. (+)
type HindsightConfig struct {
	// GoalSelectionStrategy says which achieved goals replace the desired goal: future (a random step of the episode,
	// from the transition's own step on), final (the last step of the episode) or episode (a random step of the
	// episode). Default: none, which means no hindsight.
	GoalSelectionStrategy string `yaml:"goal_selection_strategy"`
	// NSampledGoal is the number n of transitions with replaced goals for each transition with its own goal. The share
	// of replaced goals in a batch is n/(n+1). Default 4.
	NSampledGoal int `yaml:"n_sampled_goal"`
}

// Values of HindsightConfig.GoalSelectionStrategy.
const (
	GoalFuture  = "future"
	GoalFinal   = "final"
	GoalEpisode = "episode"
)

// check validates each field.
func (c *HindsightConfig) check(want Want) {
	s := c.GoalSelectionStrategy
	want(s == "" || s == GoalFuture || s == GoalFinal || s == GoalEpisode,
		"replay_buffer.hindsight.goal_selection_strategy", s, "future, final or episode, or nothing")
	want(s == "" || c.NSampledGoal > 0 && c.NSampledGoal <= 1<<20, "replay_buffer.hindsight.n_sampled_goal",
		c.NSampledGoal, "a number > 0")
}

// hindsightKeys declares the keys of hindsight.
func hindsightKeys(s *Setup, k *Keys) {
	const section = "replay_buffer.hindsight."
	k.Read(section + "goal_selection_strategy")
	k.ReadIf(s.Config.OffPolicy.ReplayBuffer.Hindsight.GoalSelectionStrategy != "", section+"goal_selection_strategy",
		section+"n_sampled_goal")
}

// Goals describe the rewards of environments with goals.
type Goals struct {
	// Rule returns the reward of a step, and whether it reached the desired goal; see env.GoalRule. Its arguments are
	// the observations achieved_goal and desired_goal after the step.
	Rule func(achieved, desired []float32) (reward float32, reached bool)
	// Terminates is true if reaching the goal terminates the episode.
	Terminates bool
}

// Names of the observations with goals.
const (
	achievedGoal = "achieved_goal"
	desiredGoal  = "desired_goal"
)

// ownGoal marks a transition that keeps its desired goal.
const ownGoal = -1

// A hindsight replaces the desired goals of some transitions that batches draw from a Replay.
type hindsight struct {
	HindsightConfig
	Goals
	replay            *Replay
	achieved, desired []float32 // rings of the Replay, [envs, capacity, width]: both goals after each step
	width             int       // numbers of a goal
}

// newHindsight returns the hindsight for transitions of r.
func newHindsight(cfg HindsightConfig, goals *Goals, r *Replay) (*hindsight, error) {
	if goals == nil {
		return nil, fmt.Errorf("replay_buffer.hindsight: environments without goals")
	}
	h := &hindsight{HindsightConfig: cfg, Goals: *goals, replay: r}
	for name, to := range map[string]*[]float32{achievedGoal: &h.achieved, desiredGoal: &h.desired} {
		t, ok := r.column(NextObservations + "." + name)
		if !ok || t.DType() != tensor.F32 || t.Rank() != 3 {
			return nil, fmt.Errorf("replay_buffer.hindsight: %s is %v, expected vectors of F32", name, t)
		}
		*to, h.width = t.F32(), t.Dim(2)
	}
	return h, nil
}

// draw sets goals[i] for the transition with number rows[i]. A goal is the number of the transition whose achieved goal
// replaces the desired goal, or ownGoal.
func (h *hindsight) draw(goals, rows []int32, s *philox.Stream) {
	for i, k := range rows {
		if goals[i] = ownGoal; s.IntN(h.NSampledGoal+1) > 0 {
			goals[i] = h.choose(int(k), s)
		}
	}
}

// choose returns the number of the transition that GoalSelectionStrategy selects in the episode of transition k.
func (h *hindsight) choose(k int, s *philox.Stream) int32 {
	last := k
	for oldest := k - k%h.replay.Size(); last+1 < oldest+h.replay.Size() && !h.ends(last); {
		last++
	}
	first := k
	switch h.GoalSelectionStrategy {
	case GoalFinal:
		first = last
	case GoalEpisode:
		for oldest := k - k%h.replay.Size(); first > oldest && !h.ends(first-1); {
			first--
		}
	}
	return int32(first + s.IntN(last-first+1))
}

// ends reports whether transition k is the last of its episode.
func (h *hindsight) ends(k int) bool {
	at := h.replay.place(k)
	return h.replay.terminated.U8()[at]|h.replay.truncated.U8()[at] != 0
}

// goalAt returns the goal at a place in the rings, as a view of goals.
func (h *hindsight) goalAt(goals []float32, place int) []float32 {
	return goals[place*h.width : (place+1)*h.width]
}

// relabel computes the return of transition i of b again, if its goal is replaced. k is the number of this transition.
// The other arguments are those of Replay.Gather.
func (h *hindsight) relabel(b *Transitions, i, k, nStep int, gamma float32, bootstrapAlways bool) {
	if b.goals[i] == ownGoal {
		return
	}
	r := h.replay
	goal := h.goalAt(h.achieved, r.place(int(b.goals[i])))
	sum, discount, size := float32(0), float32(1), r.Size()
	for age := k % size; ; age, k = age+1, k+1 {
		last := r.place(k)
		reward, reached := h.Rule(h.goalAt(h.achieved, last), goal)
		sum += discount * reward
		discount *= gamma
		nStep--
		terminated := reached && h.Terminates || h.endsOtherwise(last)
		if terminated && !bootstrapAlways {
			discount = 0
		}
		if terminated || h.ends(k) || nStep == 0 || age+1 == size {
			b.Reward[i], b.Discount[i], b.last[i] = sum, discount, last
			return
		}
	}
}

// endsOtherwise reports whether the step at a place in the rings terminated its episode for another reason than
// reaching its own desired goal.
func (h *hindsight) endsOtherwise(place int) bool {
	if h.replay.terminated.U8()[place] == 0 {
		return false
	}
	_, reached := h.Rule(h.goalAt(h.achieved, place), h.goalAt(h.desired, place))
	return !(reached && h.Terminates)
}

// show writes the replaced goals to the observations of b.
func (h *hindsight) show(b *Transitions) {
	before, after := b.Obs.Must(desiredGoal).F32(), b.Next.Must(desiredGoal).F32()
	for i, k := range b.goals {
		if k != ownGoal {
			goal := h.goalAt(h.achieved, h.replay.place(int(k)))
			copy(h.goalAt(before, i), goal)
			copy(h.goalAt(after, i), goal)
		}
	}
}
