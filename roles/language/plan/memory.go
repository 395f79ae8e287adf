package plan

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/rlinf/rlinf/policy/lm"
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
	each := func(component string, add func(s share)) {
		for _, m := range p.MembersOn(component, r) {
			add(p.share(component, m, r))
		}
	}
	or := func(component, otherwise string, placed int) string {
		if placed > 0 {
			return component
		}
		return otherwise
	}
	each("actor", func(s share) {
		f.Parameters += 2*s.trained + s.frozen
		f.Optimiser += 2 * s.trained // Adam's two moments
		f.Activations += s.work
	})
	if p.HasCritic() {
		each(or("critic", "actor", p.Critics), func(s share) {
			f.Parameters += 2 * s.trunk
			f.Optimiser += 2 * s.trunk
			f.Activations += s.work
		})
	}
	if p.NeedsReference() {
		each(or("inference", "actor", p.Inferences), func(s share) {
			f.Activations += s.work
			if p.LoRA == nil {
				f.Parameters += s.trunk
			}
		})
	}
	each("inference", func(s share) {
		if p.Config.Algorithm.RecomputeLogprobs {
			f.Activations += s.work
		}
		f.Parameters += s.own
	})
	each("rollout", func(s share) {
		f.Activations += p.EngineBytes()
		f.Parameters += s.own
	})
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

// A share has the bytes of the part of the model that a member has.
type share struct {
	trunk   int64 // all weights but adapters
	trained int64 // the trained weights
	frozen  int64 // weights without a gradient
	own     int64 // trained and frozen weights, unless an actor on the rank has them
	work    int64 // activations of the micro-batches that are in it at the same time
}

// share returns the share of a member of a component on rank r.
func (p *Plan) share(component string, member, r int) (s share) {
	mesh := p.Mesh(component)
	count, trained, local, inside := p.Count, p.Trained, p.Model, 1
	if mesh.Members() > 1 {
		part := mesh.Part(member)
		count, trained = p.held(part)
		local = p.Model.Local(part)
		if local.Layers = part.End - part.First; local.Experts.Dense != nil {
			local.Experts.Dense = local.Experts.Dense[part.First:part.End]
		}
		inside = mesh.Pipeline - mesh.At(member).Stage
	}
	s.trunk, s.trained = 4*int64(count), 4*int64(trained)
	if p.LoRA != nil {
		s.frozen = s.trunk
	}
	if p.Beside(component, member, r) < 0 {
		s.own = s.trained + s.frozen
	}
	sequences := p.Limit.Sequences
	if sequences == 0 {
		sequences = p.batch * max(p.group, 1)
	}
	bytes := func(c lm.Config) int64 { return int64(c.TrainingBytes(p.Limit.Tokens, sequences, p.LoRA)) }
	none := local
	none.Layers = 0
	s.work = bytes(local) + int64(inside-1)*(bytes(local)-bytes(none)) // layers keep each micro-batch
	return s
}

// held returns about how many weights of the model, and how many trained ones, are in a part: members of a stage divide
// its matrices.
func (p *Plan) held(part lm.Part) (count, trained int) {
	m, err := p.New()
	if err != nil {
		panic(fmt.Sprintf("plan: %v", err)) // it was made before
	}
	for _, t := range m.Tensors() {
		count += p.heldOf(part, t.Name, t.Shape)
	}
	for _, f := range m.Params.Fields {
		trained += p.heldOf(part, f.Name, f.Shape)
	}
	return count, trained
}

// heldOf returns how many elements of the tensor of this name and shape are in a part.
func (p *Plan) heldOf(part lm.Part, name string, shape []int) int {
	first, last := part.First == 0, part.End == p.Model.Layers
	_, in, ofLayer := strings.Cut(name, "model.layers.")
	number, _, _ := strings.Cut(in, ".")
	layer, _ := strconv.Atoi(number)
	switch {
	case ofLayer && (layer < part.First || layer >= part.End):
		return 0
	case !ofLayer && strings.Contains(name, "embed_tokens") && !first && !(last && p.Model.Tied):
		return 0
	case !ofLayer && !strings.Contains(name, "embed_tokens") && !last:
		return 0
	}
	n := 1
	for _, size := range shape {
		n *= size
	}
	if len(shape) > 1 {
		n = (n + part.Size - 1) / part.Size
	}
	return n
}
