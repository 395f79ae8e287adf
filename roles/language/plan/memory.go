package plan

import (
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/roles/job"
)

// CheckMemory returns an error if the ranks of a node need more memory than is available.
func (p *Plan) CheckMemory(nodes []int, node int, have job.Available) error {
	need := job.NodeNeeds(nodes, node, p.MemoryOf)
	if need <= have.Free {
		return nil
	}
	return fmt.Errorf("node %d needs %s for parameters, optimiser, activations and texts, and %v: expected fewer "+
		"tokens in a micro-batch, adapters (actor.model.is_lora) or more nodes", node, job.Mebibytes(need), have)
}

// MemoryColumns returns the columns of a table of the ranks' memory.
func (p *Plan) MemoryColumns() []job.Column {
	columns := []job.Column{
		{Name: "parameters", Bytes: func(f job.Footprint) int64 { return f.Parameters }},
		{Name: "optimiser", Bytes: func(f job.Footprint) int64 { return f.Optimiser }},
		{Name: "activations", Bytes: func(f job.Footprint) int64 { return f.Activations }},
		{Name: "texts", Bytes: func(f job.Footprint) int64 { return f.Texts }},
		{Name: "in all", Bytes: func(f job.Footprint) int64 { return f.Sum() + job.ProgramBytes }},
	}
	if p.Config.Reasons() {
		answers := job.Column{Name: "answers", Bytes: func(f job.Footprint) int64 { return f.Channels }}
		columns = slices.Insert(columns, 3, answers)
	}
	return columns
}

// MemoryOf estimates the memory of rank r.
func (p *Plan) MemoryOf(r int) (f job.Footprint) {
	sequences := p.Limit.Sequences
	if sequences == 0 {
		sequences = p.batch * max(p.group, 1)
	}
	trained, frozen := 4*int64(p.Trained), int64(0)
	if p.LoRA != nil {
		frozen = 4 * int64(p.Count) // weights without a gradient
	}
	trunk := 4 * int64(p.Count)
	work := int64(p.Model.TrainingBytes(p.Limit.Tokens, sequences, p.LoRA))
	for range p.MembersOn("actor", r) {
		f.Parameters += 2*trained + frozen
		f.Optimiser += 2 * trained // Adam's two moments
		f.Activations += work
	}
	if p.HasCritic() {
		of := "actor"
		if p.Critics > 0 {
			of = "critic"
		}
		for range p.MembersOn(of, r) {
			f.Parameters, f.Optimiser, f.Activations = f.Parameters+2*trunk, f.Optimiser+2*trunk, f.Activations+work
		}
	}
	if p.NeedsReference() {
		of := "actor"
		if p.Inferences > 0 {
			of = "inference"
		}
		for range p.MembersOn(of, r) {
			f.Activations += work
			if p.LoRA == nil {
				f.Parameters += trunk
			}
		}
	}
	for range p.MembersOn("inference", r) {
		if p.Config.Algorithm.RecomputeLogprobs {
			f.Activations += work
		}
		if !p.On("actor", r) {
			f.Parameters += trained + frozen
		}
	}
	for range p.MembersOn("rollout", r) {
		f.Activations += p.EngineBytes()
		if !p.On("actor", r) {
			f.Parameters += trained + frozen
		}
	}
	for _, of := range stageOrder {
		for range p.MembersOn(of, r) {
			f.Channels += 3 * int64(p.AnswerBytes())
		}
	}
	f.Texts = int64(p.Train.Bytes())
	if p.Valid != nil {
		f.Texts += int64(p.Valid.Bytes())
	}
	return f
}
