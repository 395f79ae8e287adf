package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/deal"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/roles/state"
)

// CheckMemory returns an error if the ranks of a node need more memory than is available.
func (p *Plan) CheckMemory(nodes []int, node int, have job.Available) error {
	if err := p.CheckDevices(nodes, node, p.deviceOf); err != nil {
		return err
	}
	need := job.NodeNeeds(nodes, node, p.MemoryOf)
	if need <= have.Free {
		return nil
	}
	return fmt.Errorf("node %d needs %s for parameters, optimiser, activations and texts, %sand %v: expected fewer "+
		"tokens in a micro-batch, adapters (actor.model.is_lora), a model that more ranks divide (docs/parallel.md) "+
		"or more nodes", node, figures.MiB(need), p.neediestRank(nodes, node), have)
}

// neediestRank returns a text about the rank that needs the most memory on a node. The text is "" if the job has no
// pool of ranks.
func (p *Plan) neediestRank(nodes []int, node int) string {
	if !p.Config.Deals() {
		return ""
	}
	rank, most := -1, int64(0)
	for r, n := range nodes {
		if need := p.MemoryOf(r).Sum() + job.ProgramBytes; n == node && need > most {
			rank, most = r, need
		}
	}
	return fmt.Sprintf("%s of them on rank %d of the pool (cluster.auto_scheduler), with %s, ",
		figures.MiB(most), rank, strings.Join(p.WorkersOn(rank), ", "))
}

// MemoryColumns returns the columns of a table of the ranks' memory: see job.Footprint. The parameters include their
// gradients, and the optimiser has two moments of each trained weight.
func (p *Plan) MemoryColumns() []job.FootprintColumn {
	columns := []job.FootprintColumn{
		{Name: "parameters", Bytes: func(f job.Footprint) int64 { return f.Parameters }},
		{Name: "optimiser", Bytes: func(f job.Footprint) int64 { return f.Optimiser }},
		{Name: "activations", Bytes: func(f job.Footprint) int64 { return f.Activations }},
		{Name: "texts", Bytes: func(f job.Footprint) int64 { return f.Texts }},
		{Name: "in all", Bytes: func(f job.Footprint) int64 { return f.Sum() + job.ProgramBytes }},
	}
	if slices.ContainsFunc(modelled, func(of string) bool { return p.Mesh(of).Members() > 1 }) {
		messages := job.FootprintColumn{Name: "messages", Bytes: func(f job.Footprint) int64 { return f.Messages }}
		columns = slices.Insert(columns, 3, messages)
	}
	if p.Config.Reasons() {
		answers := job.FootprintColumn{Name: "answers", Bytes: func(f job.Footprint) int64 { return f.Channels }}
		columns = slices.Insert(columns, 3, answers)
	}
	if len(p.deviceBytes) > 0 {
		columns = append(columns, job.DeviceColumn())
	}
	return columns
}

// MemoryOf estimates the memory of rank r.
func (p *Plan) MemoryOf(r int) (f job.Footprint) {
	for _, of := range modelled {
		for _, m := range p.MembersOn(of, r) {
			p.addMember(&f, of, m, r)
		}
	}
	for i, stage := range p.Pipeline.Stages {
		items := 3
		if i == 1 && p.Pipeline.Dealt { // every rollout worker can send groups to this stage
			items = 2 + p.Replicas("rollout")
		}
		f.Channels += int64(len(p.MembersOn(stage.Component, r)) * items * p.AnswerBytes())
	}
	f.Texts, f.Device = int64(p.Train.Bytes()), p.deviceOf(r)
	if p.Valid != nil {
		f.Texts += int64(p.Valid.Bytes())
	}
	return f
}

// MemberBytes estimates the memory of a member, on a rank without other members. The member's component must have a
// model. The result is 0 if the component has no members.
func (p *Plan) MemberBytes(component string) int64 { return p.memberBytes(component, 0) }

// PartBytes is like MemberBytes, but for members that divide the model by this mesh. It estimates the memory of the
// member that needs the most.
func (p *Plan) PartBytes(component string, by mesh.Mesh) (most int64) {
	divided := *p
	divided.meshes = maps.Clone(p.meshes)
	divided.meshes[component] = by
	for stage := range by.Full().Stages {
		most = max(most, divided.memberBytes(component, stage*by.Full().Tensor))
	}
	return most
}

func (p *Plan) memberBytes(component string, member int) int64 {
	var f job.Footprint
	if p.Workers(component) > 0 {
		p.addMember(&f, component, member, -1)
	}
	return f.Sum()
}

// addMember adds to f the memory of a member on rank r, in a component with a model. Actors do the work of components
// that are not placed.
func (p *Plan) addMember(f *job.Footprint, component string, index, r int) {
	model, critic := p.Config.Optimisers()
	s := p.share(component, index, r)
	if p.Config.UsesGPU(component, index) {
		s.work, s.forward = 0, 0
	}
	switch component {
	case "actor":
		f.Parameters += 2*s.trained + s.frozen
		f.Optimiser += moments(s.trained, model, p.Actors)
		f.Activations, f.Messages = f.Activations+s.work, f.Messages+s.messages
	case "rollout":
		f.Parameters, f.Activations = f.Parameters+s.own, f.Activations+p.EngineBytes()
		if p.Pipeline.Dealt {
			f.Activations += 2 * min(p.EngineBytes(), 4*deal.MostCache) // answers that arrive or leave
		}
	case "inference":
		f.Parameters += s.own
		if p.Config.Algorithm.RecomputeLogprobs {
			f.Activations += s.forward
		}
	}
	if p.trainsCritic(component) {
		f.Parameters += 2 * s.trunk
		f.Optimiser += moments(s.trunk, critic, cmp.Or(p.Replicas("critic"), p.Actors))
		f.Activations, f.Messages = f.Activations+s.work, f.Messages+s.messages
	}
	if p.refers(component) {
		f.Activations += s.forward
		if p.LoRA == nil {
			f.Parameters += s.trunk
		}
	}
}

// moments returns the bytes of Adam's two moments on one of several replicas, for weights of this many bytes.
func moments(weights int64, o algo.OptimConfig, replicas int) int64 {
	if o.UseDistributedOptimizer {
		return 2 * weights / int64(replicas)
	}
	return 2 * weights
}

// A share has the sizes in bytes of a member's part of the model.
type share struct {
	trunk    int64 // all weights except adapters
	trained  int64 // the trained weights
	frozen   int64 // weights without a gradient
	own      int64 // trained and frozen weights; 0 if an actor on the rank has the same part
	work     int64 // activations of all micro-batches that this part holds at the same time
	forward  int64 // activations of inference
	messages int64 // messages to other members, in a training step and while a checkpoint is saved
}

// share returns the sizes for a member of a component on rank r.
func (p *Plan) share(component string, index, r int) (s share) {
	by, m := p.Mesh(component), p.partOf(component, index)
	s.trunk, s.trained = 4*int64(m.Count()), 4*int64(m.Params.Len())
	if p.LoRA != nil {
		s.frozen = s.trunk
	}
	if p.Beside(component, index, r) < 0 {
		s.own = s.trained + s.frozen
	}
	sequences := p.Limit.Sequences
	sequences = cmp.Or(sequences, p.batch*max(p.group, 1))
	stages := by.Stages - by.At(index).Stage // number of stages from the member's stage to the last
	s.work = int64(m.TrainingBytes(p.Limit.Tokens, sequences, stages, p.Config.RecomputedLayers()))
	s.forward = int64(m.InferenceBytes(p.Limit.Tokens, sequences))
	if by.Members() > 1 {
		pieces := int64(1)
		if r == 0 { // rank 0 writes checkpoints
			pieces = 2
		}
		s.messages = int64(m.MessageBytes(p.Limit.Tokens)) + pieces*min(state.PieceBytes, s.trained)
	}
	return s
}
