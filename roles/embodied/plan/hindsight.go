package plan

import (
	"fmt"

	"github.com/rlinf/rlinf/algo"
)

// checkHindsight checks that the environments have goals and a known rule, if goals are replaced in hindsight.
func (d *Draft) checkHindsight() {
	const key = "algorithm.replay_buffer.hindsight.goal_selection_strategy"
	strategy := d.Config.Algorithm.OffPolicy.ReplayBuffer.Hindsight.GoalSelectionStrategy
	if strategy == "" || !d.OffPolicy || d.Spec.Name == "" {
		return
	}
	if d.Spec.Goal == nil {
		d.found.Problem(key, strategy, fmt.Sprintf("none: %s has no goals (docs/environments.md, Goals)", d.Spec.Name))
		return
	}
	_, err := d.Registries.Envs.GoalRule(*d.Spec.Goal)
	d.found.Want(err == nil, key, strategy, fmt.Sprintf("none: %s: %v", d.Spec.Name, err))
}

// goals returns the goals of the training environments, or nil if they have none.
func (p *Plan) goals() *algo.Goals {
	if p.Spec.Goal == nil {
		return nil
	}
	rule, err := p.Registries.Envs.GoalRule(*p.Spec.Goal)
	if err != nil {
		return nil // checkHindsight reports it where it matters
	}
	return &algo.Goals{Rule: rule, Terminates: p.Spec.Goal.Terminates}
}
