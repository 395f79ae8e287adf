package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/roles/mesh"
)

// A Pipeline assigns groups to workers in an iteration of the reasoning task. A group is a prompt with its answers.
// Here a worker is a replica. All members of a replica work on its groups, and the first member sends and receives. A
// Pipeline depends only on the numbers of groups, rounds and workers. So every rank computes the same Pipeline, and
// nothing depends on the order of arrival.
//
// Groups go from stage to stage. In each stage every worker gets a contiguous range of the groups. A rollout worker
// generates its range in rounds, one after the other. When all answers of a group have ended, it sends the group to the
// next stage, and continues with other groups. With cluster.auto_scheduler, rollout workers have no ranges, and package
// deal distributes the groups.
type Pipeline struct {
	Groups int
	Rounds int             // rounds of a rollout worker: rollout.pipeline_stage_num
	Dealt  bool            // any rollout worker may generate any group; Rounds has no effect
	Stages []PipelineStage // the placed components, in the order rollout, reward, inference, critic, actor
}

// A PipelineStage is a component through which groups pass.
type PipelineStage struct {
	Component string
	Mesh      mesh.Mesh
	Replicas  int
}

// Stage returns the index of a component's stage. It is -1 if the component has no stage.
func (p *Pipeline) Stage(component string) int {
	return slices.IndexFunc(p.Stages, func(s PipelineStage) bool { return s.Component == component })
}

// Range returns the range of groups [lo, hi) that a worker gets in a stage.
func (p *Pipeline) Range(stage, worker int) (lo, hi int) {
	return span(p.Groups, p.Stages[stage].Replicas, worker)
}

// Owner returns the worker that gets a group in a stage.
func (p *Pipeline) Owner(stage, group int) int {
	return owner(p.Groups, p.Stages[stage].Replicas, group)
}

// Round returns the range of groups [lo, hi) that a rollout worker generates in a round.
func (p *Pipeline) Round(worker, round int) (lo, hi int) {
	first, end := p.Range(0, worker)
	lo, hi = span(end-first, p.Rounds, round)
	return first + lo, first + hi
}

// Pairs reports whether a member of a stage sends groups to a member of the next stage. Both must be the first members
// of their replicas, and the replicas must have groups in common.
func (p *Pipeline) Pairs(stage, sender, receiver int) bool {
	this, next := p.Stages[stage].Mesh, p.Stages[stage+1].Mesh
	if !this.IsFirst(sender) || !next.IsFirst(receiver) {
		return false
	}
	a, b := p.Range(stage, this.At(sender).Replica)
	c, d := p.Range(stage+1, next.At(receiver).Replica)
	return stage == 0 && p.Dealt || max(a, c) < min(b, d)
}

// Receiver returns the member that receives a group in a stage.
func (p *Pipeline) Receiver(stage, group int) int {
	return p.Stages[stage].Mesh.First(p.Owner(stage, group))
}

// lines returns lines that describe the numbers of groups and answers. groupSize is the number of answers in a group.
// Without groups there are no lines.
func (p *Pipeline) lines(groupSize int) []string {
	if p.Groups == 0 {
		return nil
	}
	each := make([]string, len(p.Stages))
	for i, h := range p.Stages {
		workers, what := h.Replicas, unit(h.Mesh)
		least, most := p.Groups/workers, (p.Groups+workers-1)/workers
		each[i] = fmt.Sprintf("%d on each of %d %s %ss", least, workers, h.Component, what)
		if most > least {
			each[i] = fmt.Sprintf("%d or %d on each of %d %s %ss", least, most, workers, h.Component, what)
		}
		if workers == 1 {
			each[i] = fmt.Sprintf("%d on 1 %s %s", least, h.Component, what)
		}
	}
	if p.Dealt {
		each[0] = fmt.Sprintf("dealt to %d %s %ss", p.Stages[0].Replicas, p.Stages[0].Component,
			unit(p.Stages[0].Mesh))
	} else if p.Rounds > 1 {
		each[0] += fmt.Sprintf(" in %d stages", p.Rounds)
	}
	return []string{fmt.Sprintf("answers: %d to each of %d prompts; prompts: %s", groupSize, p.Groups,
		strings.Join(each, ", then "))}
}

// span divides n elements into parts as evenly as possible, and returns the range [lo, hi) of part i.
func span(n, parts, i int) (lo, hi int) { return i * n / parts, (i + 1) * n / parts }

// owner returns the index of the part that has element i, if span divides n elements.
func owner(n, parts, i int) int { return ((i+1)*parts - 1) / n }

// BalanceGroups assigns each group to a replica. Each replica gets the same number of groups, and about the same number
// of tokens. tokens[i] is the number of tokens of group i. The result has the replica of each group.
func BalanceGroups(tokens []float64, replicas int) []int {
	return balance(tokens, replicas, len(tokens)/replicas)
}

// balance assigns items (texts or groups) to replicas, and returns the replica of each item. tokens[i] is the number of
// tokens of item i. The longest remaining item goes to the replica with the fewest tokens, or to the first of several
// such replicas. A replica gets at most limit items.
func balance(tokens []float64, replicas, limit int) []int {
	longest := make([]int, len(tokens))
	for i := range longest {
		longest[i] = i
	}
	slices.SortStableFunc(longest, func(a, b int) int { return cmp.Compare(tokens[b], tokens[a]) })
	load, owned, owners := make([]float64, replicas), make([]int, replicas), make([]int, len(tokens))
	for _, i := range longest {
		least := -1
		for r := range load {
			if owned[r] < limit && (least < 0 || load[r] < load[least]) {
				least = r
			}
		}
		owners[i] = least
		load[least] += tokens[i]
		owned[least]++
	}
	return owners
}
