package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/figures"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/mesh"
)

// unit returns the word for a replica in messages. A replica of one member is called a worker.
func unit(m mesh.Mesh) string {
	if m.Members() > 1 {
		return "replica"
	}
	return "worker"
}

// modelled are the components that have a language model.
var modelled = []string{"actor", "rollout", "inference", "critic"}

// Modelled returns the components that have a language model.
func Modelled() []string { return slices.Clone(modelled) }

// Mesh returns the mesh of a component. If the component has no model, each member is a replica.
func (p *Plan) Mesh(component string) mesh.Mesh { return p.meshes[component].Full() }

// Replicas returns the number of replicas of a component. It is 0 if the component is not placed.
func (p *Plan) Replicas(component string) int {
	return p.Workers(component) / p.Mesh(component).Members()
}

// Part returns the part of the model that a member of a component has.
func (p *Plan) Part(component string, member int) lm.Shard {
	m := p.Mesh(component)
	at := m.At(member)
	layers := p.layers(component, m.Stages)
	part := lm.Shard{Index: at.Tensor, Size: m.Tensor}
	for _, n := range layers[:at.Stage] {
		part.First += n
	}
	part.End = part.First + layers[at.Stage]
	return part
}

// layers returns the number of layers of each stage of a component, if the component has this many stages.
func (p *Plan) layers(component string, stages int) []int {
	switch given := p.Config.Layout(component).PipelineLayers; {
	case stages == 1:
		return []int{p.Model.Layers}
	case len(given) == stages:
		return given
	}
	return divideLayers(layerCosts(&p.Model), stages)
}

// Beside returns an actor on the rank. The actor has the same part of the model as the member of the component. Beside
// returns -1 if no actor on the rank has this part, or if the member is an inference worker and one of them computes on
// a device.
func (p *Plan) Beside(component string, member, rank int) int {
	part := p.Part(component, member)
	for _, actor := range p.MembersOn("actor", rank) {
		onDevice := p.Config.UsesGPU("actor", actor) || p.Config.UsesGPU(component, member)
		if p.Part("actor", actor) == part && !(component == "inference" && onDevice) {
			return actor
		}
	}
	return -1
}

// arrange makes the meshes of the components with a model. It reports whether the configured sizes divide the numbers
// of members.
func (d *Draft) arrange() (ok bool) {
	d.meshes, ok = map[string]mesh.Mesh{}, true
	for _, of := range modelled {
		members, l := d.Workers(of), d.Config.Layout(of)
		if members == 0 {
			continue
		}
		tensorKey, stagesKey := config.LayoutKeys(of)
		if d.found.Reported(tensorKey, stagesKey) {
			return false
		}
		t, p := l.TensorModelParallelSize, l.PipelineModelParallelSize
		switch {
		case members%p != 0:
			d.found.Problem(stagesKey, p, oneOf(divisors(members))+fmt.Sprintf(" (a divisor of %s)",
				figures.Count(members, of+" worker")))
			ok = false
		case members%l.Size() != 0:
			d.found.Problem(tensorKey, t, oneOf(divisors(members/p))+fmt.Sprintf(
				" (a divisor of %d: %s in %s)", members/p, figures.Count(members, of+" worker"),
				figures.Count(p, "stage")))
			ok = false
		default:
			d.meshes[of] = config.MeshOf(l)
		}
	}
	return ok
}

// checkMeshes checks that each mesh fits the model.
func (d *Draft) checkMeshes() {
	for _, of := range modelled {
		m, placed := d.meshes[of]
		if !placed {
			continue
		}
		d.checkTensor(of)
		_, stagesKey := config.LayoutKeys(of)
		given := d.Config.Layout(of).PipelineLayers
		sum := 0
		for _, n := range given {
			sum += n
		}
		switch {
		case m.Stages > d.Model.Layers:
			d.found.Problem(stagesKey, m.Stages, fmt.Sprintf("at most %d, the model's layers", d.Model.Layers))
		case len(given) > 0 && (slices.Max(given) > d.Model.Layers || sum != d.Model.Layers): // a sum may overflow
			d.found.Problem(of+".model.pipeline_layers", given, fmt.Sprintf("%d layers in all, those of the model",
				d.Model.Layers))
		}
	}
	for _, of := range []string{"rollout", "inference"} {
		if _, placed := d.meshes[of]; placed {
			d.checkReader(of)
		}
	}
}

// Meshes returns the possible meshes of one replica of the model. The first mesh is that of the job's actors. The other
// meshes have 1, 2, 4, … stages, and every possible number of tensor members.
func (p *Plan) Meshes() []mesh.Mesh {
	now := p.Mesh("actor")
	list := []mesh.Mesh{now}
	for stages := 1; stages <= p.Model.Layers; stages *= 2 {
		for _, tensor := range p.Model.Sizes() {
			if m := (mesh.Mesh{Stages: stages, Tensor: tensor}); m != now {
				list = append(list, m)
			}
		}
	}
	return list
}

// LargestStage returns the largest share of the model's work that a stage of actors has, if there are this many stages.
func (p *Plan) LargestStage(stages int) float64 {
	costs, total, most := layerCosts(&p.Model), 0, 0
	for _, layers := range p.layers("actor", stages) {
		stage := 0
		for _, c := range costs[:layers] {
			stage += c
		}
		costs, total, most = costs[layers:], total+stage, max(most, stage)
	}
	return float64(most) / float64(max(1, total))
}

// checkTensor checks that the layers of the model can be divided among the tensor members of a component.
func (d *Draft) checkTensor(of string) {
	n := d.meshes[of].Tensor
	key, _ := config.LayoutKeys(of)
	if fit := d.Model.Sizes(); !slices.Contains(fit, n) {
		d.found.Problem(key, n, oneOf(fit)+fmt.Sprintf(" (a divisor of %d key heads and of the "+
			"%d blocks of this model's sums)", d.Model.KVHeads, d.Model.Blocks()))
	}
}

// checkReader checks that a component can receive patches of weights from the actors. If the component and the actors
// divide the model differently, init_sync must send all initial weights.
func (d *Draft) checkReader(of string) {
	sync, reader, actor := &d.Config.WeightSyncer, d.Mesh(of), d.Mesh("actor")
	same := reader == actor && slices.Equal(d.layers(of, reader.Stages), d.layers("actor", actor.Stages))
	if sync.Type != config.WeightSyncPatch || same {
		return
	}
	first, key := &sync.Patch.InitSync, "weight_syncer.patch.init_sync."
	because := fmt.Sprintf(" (%s and actor divide the model in different ways)", of)
	d.found.Want(first.Enabled, key+"enabled", first.Enabled, "true"+because)
	d.found.Want(len(first.Prefixes) == 0, key+"prefixes", first.Prefixes, "null"+because)
}

// layerCosts returns the number of weights that a token uses in each layer. The first layer includes the embedding, and
// the last layer includes the output matrix.
func layerCosts(c *lm.Config) []int {
	costs := make([]int, c.Layers)
	for i := range costs {
		costs[i] = 2 * c.Hidden * (c.Heads + c.KVHeads) * c.HeadDim
		if x := c.Experts; c.Sparse(i) {
			costs[i] += 3 * c.Hidden * (x.PerToken*x.Intermediate + x.SharedIntermediate)
		} else {
			costs[i] += 3 * c.Hidden * c.Intermediate
		}
	}
	costs[0] += c.Hidden * c.Vocab
	costs[len(costs)-1] += c.Hidden * c.Vocab
	return costs
}

// divideLayers divides layers with these costs into stages of about equal cost, and returns the number of layers of
// each stage. The middle of a layer's cost decides its stage, but each stage has at least one layer.
func divideLayers(costs []int, stages int) []int {
	total, before := 0.0, 0.0
	for _, c := range costs {
		total += float64(c)
	}
	layers, stage := make([]int, stages), 0
	for i, c := range costs {
		middle := int((before + float64(c)/2) / total * float64(stages))
		if i > 0 {
			stage = max(min(middle, stage+1, stages-1), stage, stages-(len(costs)-i))
		}
		layers[stage]++
		before += float64(c)
	}
	return layers
}

// divisors returns the divisors of n.
func divisors(n int) (all []int) {
	for i := 1; i <= n; i++ {
		if n%i == 0 {
			all = append(all, i)
		}
	}
	return all
}

// oneOf returns the numbers as a text such as "1, 2 or 4".
func oneOf(numbers []int) string {
	words := make([]string, len(numbers))
	for i, n := range numbers {
		words[i] = fmt.Sprint(n)
	}
	last := len(words) - 1
	if last == 0 {
		return words[0]
	}
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// replicas describes the replicas of a component: "2 actors", or "2 replicas of 4 actors".
func (p *Plan) replicas(component string) string {
	n, each := p.Replicas(component), p.Mesh(component).Members()
	name := component + "s"
	if component != "actor" {
		name = component + " workers"
	}
	if each == 1 {
		return fmt.Sprintf("%d %s", n, name)
	}
	return fmt.Sprintf("%s of %d %s", figures.Count(n, "replica"), each, name)
}

// WorkersOn returns the names of the workers on rank r, for example actor[5]. In a mesh the name also has the worker's
// coordinates: actor[5]@1,0,1.
func (p *Plan) WorkersOn(r int) []string {
	workers := []string{}
	for _, of := range p.Placement.Components() {
		for _, n := range p.MembersOn(of, r) {
			name := fmt.Sprintf("%s[%d]", of, n)
			if m := p.Mesh(of); m.Members() > 1 {
				at := m.At(n)
				name += fmt.Sprintf("@%d,%d,%d", at.Replica, at.Stage, at.Tensor)
			}
			workers = append(workers, name)
		}
	}
	return workers
}

// meshLines returns lines that describe the meshes. It returns nil if every member has a whole model.
func (p *Plan) meshLines() (lines []string) {
	for _, of := range modelled {
		m, placed := p.meshes[of]
		if !placed || m.Members() == 1 {
			continue
		}
		line := fmt.Sprintf("mesh of %s: %s × %v", of, figures.Count(p.Replicas(of), "replica"), m)
		if m.Stages > 1 {
			line += fmt.Sprintf(", of %s layers", listed(p.layers(of, m.Stages)))
		}
		lines = append(lines, line)
	}
	if len(lines) > 0 {
		lines = append(lines, "places in a mesh: @replica,stage,tensor")
	}
	return lines
}

// listed returns the numbers as a text such as "12 and 12".
func listed(numbers []int) string { return strings.Replace(oneOf(numbers), " or ", " and ", 1) }

// checkBubble adds a warning if an update has so few micro-batches that pipeline stages often wait for each other.
func (d *Draft) checkBubble() {
	stages := d.Mesh("actor").Stages
	n, _ := d.MicroBatches()
	if stages == 1 || n >= 2*stages {
		return
	}
	d.notes = append(d.notes, fmt.Sprintf("pipeline: with %d micro-batches in an update the %d stages work %.0f %% of "+
		"the time: expected at least %d, by a smaller actor.micro_batch_size", n, stages,
		100*float64(n)/float64(n+stages-1), 2*stages))
}

// noteSharding adds a warning if the configuration has a sharding strategy, because replicas shard only moments.
func (d *Draft) noteSharding() {
	if s := d.Config.Actor.FSDPConfig.ShardingStrategy; s != config.NoShard {
		d.notes = append(d.notes, fmt.Sprintf("actor.fsdp_config.sharding_strategy %s: replicas divide the "+
			"optimiser's moments; each has all weights and gradients", s))
	}
}

// MicroBatches estimates how many micro-batches each actor replica has in an update, and how many tokens a micro-batch
// has.
func (p *Plan) MicroBatches() (n, tokens int) {
	c, texts, length := p.Config, p.batch/p.Actors, p.Config.Runner.SeqLength
	if c.Reasons() {
		texts = config.Product(texts, c.Algorithm.GroupSize) / max(1, c.Algorithm.Texts.NMinibatches)
	} else {
		sum := 0
		for _, s := range p.Train.Samples {
			sum += len(s.IDs)
		}
		length = sum / len(p.Train.Samples)
	}
	if each := p.Limit.Sequences; each > 0 {
		return (texts + each - 1) / each, config.Product(min(texts, each), length)
	}
	tokens = config.Product(texts, length)
	return max(1, tokens/p.Limit.Tokens), min(tokens, p.Limit.Tokens)
}
