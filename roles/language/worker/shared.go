package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/weights"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// Shared is what the workers of a rank have in common: their language models, the weights that actors send to rollout
// and inference workers, and a judge of answers. If the model has adapters, actors send only the adapters.
type Shared struct {
	world   *spmd.World
	plan    *plan.Plan
	own     *loop.Holdings
	models  map[string]map[int]*lm.Model // by component and member number
	inPlace map[*lm.Model]bool           // the actors' models, which other workers may read in place
	gpus    map[int]*member.GPU          // by the member number of an actor; nil without devices
	weights *weights.Sync                // nil if no worker reads the actors' weights
	judge   *answer.JudgeProgram         // kept when workers move
}

var _ loop.Shared = (*Shared)(nil)

// readers are the components that read the actors' weights.
var readers = []string{"rollout", "inference"}

// NewShared loads the models, or parts of models, of a rank's workers with their initial weights. Workers that read
// weights in place use the model of an actor on this rank.
func NewShared(w *spmd.World, p *plan.Plan, own *loop.Holdings) (*Shared, error) {
	s := &Shared{world: w, plan: p, own: own, inPlace: map[*lm.Model]bool{},
		judge:  loop.Lasting[answer.JudgeProgram](own),
		models: map[string]map[int]*lm.Model{"actor": {}, "rollout": {}, "inference": {}},
		gpus:   map[int]*member.GPU{}}
	for _, m := range p.MembersOn("actor", w.Rank()) {
		device, err := s.openGPU(m)
		if err != nil {
			return nil, err
		}
		model, err := load(p, own, "actor", m, own.Alloc("actor", m), device)
		if err != nil {
			return nil, err
		}
		s.models["actor"][m], s.inPlace[model] = model, true
	}
	for _, of := range readers {
		for _, m := range p.MembersOn(of, w.Rank()) {
			model := s.models["actor"][p.Beside(of, m, w.Rank())]
			if model == nil || !weights.ReadsInPlace(p.Job) {
				var err error
				if model, err = load(p, own, of, m, tensor.Heap, nil); err != nil {
					return nil, err
				}
				model.Params.Grad = nil // readers do not train the model
			}
			s.models[of][m] = model
		}
	}
	return s, nil
}

// openGPU returns the device of an actor: the device that the actor left on this rank in a move, or a new one. It is
// nil if the actor computes on the CPU.
func (s *Shared) openGPU(m int) (nn.Device[float32], error) {
	if !s.plan.Config.Actor.UsesGPU(m) {
		return nil, nil
	}
	part, ok := loop.Part[interface{ keptGPU() *member.GPU }](s.own, "actor", m)
	if ok {
		s.gpus[m] = part.keptGPU()
		return s.gpus[m].Ops, nil
	}
	gpu, err := member.OpenGPU(s.world.LocalRank())
	if err != nil {
		return nil, fmt.Errorf("actor %d: %w", m, err)
	}
	s.gpus[m] = gpu
	return gpu.Ops, nil
}

// load returns the model of a member: the model that the member left on this rank in a move, or a new model with its
// initial weights. After a move a new model gets its weights from other ranks, so load reads no weights. But a job that
// sends patches needs the initial weights, to which patches apply.
func load(p *plan.Plan, own *loop.Holdings, component string, m int, alloc tensor.Allocator,
	device nn.Device[float32]) (*lm.Model, error) {
	if part, ok := loop.Part[interface{ keptModel() *lm.Model }](own, component, m); ok {
		if model := part.keptModel(); model != nil {
			return model, nil
		}
	}
	newPart := p.LoadPart
	if own.Moved() && !p.SendsPatches() {
		newPart = p.BlankPart
	}
	model, err := newPart(p.Part(component, m), alloc, device)
	if err != nil {
		return nil, fmt.Errorf("%s %d: %w", component, m, err)
	}
	return model, nil
}

// SharedOf returns the Shared of c's rank.
func SharedOf(c *loop.Cluster) (*Shared, error) {
	if s, ok := loop.SharedOf(c).(*Shared); ok {
		return s, nil
	}
	return nil, errors.New("the job has no language model (runner.task_type sft or reasoning)")
}

// lookUp returns the Shared of m's rank, and m's model.
func lookUp(c *loop.Cluster, m *spmd.Member) (*Shared, *lm.Model, error) {
	s, err := SharedOf(c)
	if err != nil {
		return nil, nil, fmt.Errorf("%s %d: %w", m.Group(), m.Index(), err)
	}
	return s, s.models[m.Group()][m.Index()], nil
}

// Plan returns the plan of the job.
func (s *Shared) Plan() *plan.Plan { return s.plan }

// Connect connects the actors' weights with their readers. Every rank must call it.
func (s *Shared) Connect(ctx context.Context) (err error) {
	if !s.plan.Config.Reasons() { // no worker reads the actors' weights
		return nil
	}
	s.weights, err = weights.New(ctx, s.world, s.plan.Job, weights.SyncSpec{Label: "weights", Readers: readers,
		Params: func(component string, member int) *nn.Params[float32] { return s.models[component][member].Params },
		Part:   s.plan.Declarations()})
	return err
}

// Close closes the weights and the devices. Every rank calls Close after the last Publish.
func (s *Shared) Close() {
	for _, g := range s.gpus {
		g.Close() // the results are here already, so an error changes nothing
	}
	s.weights.Close()
}

// A reader has a model that gets its parameters from the actors.
type reader struct {
	model   *lm.Model
	weights *weights.Assembler
	inPlace bool  // the model is an actor's model
	version int64 // version of the weights; -1 if there is none yet
}

// reader returns a reader with the model of member m.
func (s *Shared) reader(m *spmd.Member, model *lm.Model) reader {
	return reader{model: model, weights: s.weights.Collector(m, model.Params.State()), inPlace: s.inPlace[model],
		version: -1}
}

// A readerPart is what a reader leaves to its successor on the same rank.
type readerPart struct {
	model     *lm.Model      // nil if the model belongs to an actor
	reference *reference     // nil if there is no reference, or if the reference shares memory with the model
	grader    *answer.Grader // the grader of a rollout worker's exam; nil if there is no exam
}

// keptModel returns the model of a worker that stays on its rank in a move. It gives the parameters new memory, because
// the old memory belonged to the previous world. The values come from the actors.
func (p *readerPart) keptModel() *lm.Model {
	if p.model != nil {
		p.model.Params.View(tensor.New(tensor.U8, len(p.model.Params.State())).Bytes())
	}
	return p.model
}

// part returns a readerPart for the reader's successor. It returns nil if patches are sent. reference and grader may be
// nil.
func (r *reader) part(p *plan.Plan, reference *reference, grader *answer.Grader) any {
	if p.SendsPatches() {
		return nil
	}
	part := &readerPart{grader: grader}
	if reference != nil && reference.copied {
		part.reference = reference
	}
	if !r.inPlace {
		part.model = r.model
	}
	return part
}

// SyncModelFromActor makes the model use this version of the weights, or a newer version.
func (r *reader) SyncModelFromActor(ctx context.Context, version int64) error {
	state, got, err := r.weights.Adopt(ctx, version)
	if err != nil {
		return err
	}
	if r.version = got; !r.inPlace {
		r.model.Params.View(state)
	}
	return nil
}
