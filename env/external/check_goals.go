package external

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
)

// keepsGoals checks that the rewards and terminations of each step are those that the goal's rule gives for the goals
// after the step.
func (k *checker) keepsGoals() error {
	goal := k.greeting.spec.Goal
	if goal == nil {
		return notSpoken("the greeting has no goal")
	}
	rule, err := env.NewRegistry().GoalRule(*goal)
	if err != nil {
		return notSpoken(fmt.Sprintf("the rule %s is that of another program", goal.Reward))
	}
	var achieved, desired int
	for i, f := range k.greeting.spec.Obs {
		switch f.Name {
		case env.AchievedGoal:
			achieved = i
		case env.DesiredGoal:
			desired = i
		}
	}
	played, err := k.played(setup{shareMemory: true, maxSteps: k.greeting.MaxSteps}, k.Steps, false)
	if err != nil {
		return err
	}
	for n, steps := range played {
		for i, o := range steps {
			reward, reached := rule(o.last[achieved].F32(), o.last[desired].F32())
			if o.reward != reward {
				return fmt.Errorf("environment %d, step %d: reward %v, expected %v from achieved_goal %s and "+
					"desired_goal %s", n, i, o.reward, reward, text(o.last[achieved]), text(o.last[desired]))
			}
			if terminates := goal.Terminates; reached && (o.terminated != 0) != terminates {
				return fmt.Errorf("environment %d, step %d: the goal is reached, and terminated is %d: expected "+
					"terminates %v as in the greeting", n, i, o.terminated, terminates)
			}
		}
	}
	return nil
}
