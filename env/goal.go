package env

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/params"
	"github.com/rlinf/rlinf/tensor"
)

// Names of the observations of environments with goals, as in Gymnasium-Robotics
// (https://robotics.farama.org/content/multi-goal_api). AchievedGoal and DesiredGoal are vectors of equal length.
const (
	Observation  = "observation" // everything except the goals
	AchievedGoal = "achieved_goal"
	DesiredGoal  = "desired_goal"
)

// A Goal describes the rewards of an environment with goals. They depend only on the achieved goal after a step and on
// the desired goal. So hindsight can compute what the rewards would have been with other goals.
type Goal struct {
	Threshold float32 // distance up to which the goal is reached
	Reward    string  // name of a GoalRule: SparseGoal, ZeroOneGoal, or a rule of your own
	// Terminates is true if an episode ends by termination when the goal is reached.
	Terminates bool
}

// A GoalRule returns the reward of a step, and whether it reached the goal. achieved is the achieved goal after the
// step. The rule keeps no state and is safe for concurrent use.
type GoalRule func(achieved, desired []float32, threshold float32) (reward float32, reached bool)

// GoalRules maps values of Goal.Reward to rules.
type GoalRules = params.Registry[GoalRule]

// Names of the rules of this package. A goal is reached within the threshold, by the Euclidean distance.
const (
	SparseGoal  = "sparse"   // 0 if the goal is reached, otherwise -1
	ZeroOneGoal = "zero_one" // 1 if the goal is reached, otherwise 0
)

// builtinGoalRules returns the rules of this package. A new rule is one line here, or
//
//	registries.Envs.GoalRules.Add("my_rule", myRule)
//
// in a program of your own.
func builtinGoalRules() (rules GoalRules) {
	rules.Add(SparseGoal, sparseGoal)
	rules.Add(ZeroOneGoal, func(achieved, desired []float32, threshold float32) (float32, bool) {
		reward, reached := sparseGoal(achieved, desired, threshold)
		return reward + 1, reached
	})
	return rules
}

func sparseGoal(achieved, desired []float32, threshold float32) (float32, bool) {
	sum := 0.0
	for i, x := range achieved {
		d := float64(x) - float64(desired[i])
		sum += d * d
	}
	if math.Sqrt(sum) <= float64(threshold) {
		return 0, true
	}
	return -1, false
}

// Sparse is the rule SparseGoal with the threshold of g, for environments that compute their own rewards.
func (g Goal) Sparse(achieved, desired []float32) (reward float32, reached bool) {
	return sparseGoal(achieved, desired, g.Threshold)
}

// Under returns the Goal of an environment with the configuration cfg. It is g, unless IgnoreTerminations is set: then
// reaching the goal does not terminate an episode. If g is nil, the result is nil.
func (g *Goal) Under(cfg Config) *Goal {
	if g == nil || !cfg.IgnoreTerminations {
		return g
	}
	return &Goal{Threshold: g.Threshold, Reward: g.Reward}
}

// GoalRule returns the rule of g with its threshold. It returns an error if the Registry has no such rule.
func (r *Registry) GoalRule(g Goal) (func(achieved, desired []float32) (reward float32, reached bool), error) {
	rule, ok := r.GoalRules.Builder(g.Reward)
	if !ok {
		return nil, fmt.Errorf("goal: reward %q: expected %s, or a rule that your own program adds", g.Reward,
			strings.Join(r.GoalRules.Names(), ", "))
	}
	return func(achieved, desired []float32) (float32, bool) { return rule(achieved, desired, g.Threshold) }, nil
}

// CheckGoal returns an error if s has a Goal with an invalid threshold, or without two observations that fit it.
func (s Spec) CheckGoal() error {
	if s.Goal == nil {
		return nil
	}
	if t := float64(s.Goal.Threshold); !(t >= 0) || math.IsInf(t, 1) {
		return fmt.Errorf("goal: threshold %v: expected a distance", t)
	}
	width := 0
	for _, name := range []string{AchievedGoal, DesiredGoal} {
		i := slices.IndexFunc(s.Obs, func(f Field) bool { return f.Name == name })
		if i < 0 || s.Obs[i].DType != tensor.F32 || len(s.Obs[i].Shape) != 1 {
			return fmt.Errorf("goal: expected the observations %s and %s, vectors of F32", AchievedGoal, DesiredGoal)
		}
		if n := s.Obs[i].Dim(); width != 0 && n != width {
			return fmt.Errorf("goal: %s has %d numbers and %s %d: expected as many", AchievedGoal, width, name, n)
		} else {
			width = n
		}
	}
	return nil
}
