package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// LanguageModels are those of this rank's workers, by component and member, with their first weights.
type LanguageModels map[string]map[int]*lm.Model

// readers are the components that use the actors' weights, in the order of TextWeights.
var readers = [...]string{"rollout", "inference"}

// NewLanguageModels makes the models of this rank's workers; none where the job has no language model.
// Workers that read weights in place on an actor's rank have the first actor's model.
func NewLanguageModels(w *spmd.World, j *job.Job) (LanguageModels, error) {
	models := LanguageModels{}
	if j.Tuning == nil {
		return models, nil
	}
	var first *lm.Model
	for _, m := range j.MembersOn("actor", w.Rank()) {
		own, err := j.Tuning.Load(w.Alloc)
		if err != nil {
			return nil, fmt.Errorf("actor %d: %w", m, err)
		}
		models.set("actor", m, own)
		if first == nil {
			first = own
		}
	}
	for _, of := range readers {
		for _, m := range j.MembersOn(of, w.Rank()) {
			model := first
			if model == nil || !readsInPlace(j) {
				var err error
				if model, err = j.Tuning.Load(tensor.Heap); err != nil {
					return nil, fmt.Errorf("%s %d: %w", of, m, err)
				}
				model.Params.Grad = nil // it is not trained
			}
			models.set(of, m, model)
		}
	}
	return models, nil
}

func (l LanguageModels) set(component string, member int, m *lm.Model) {
	if l[component] == nil {
		l[component] = map[int]*lm.Model{}
	}
	l[component][member] = m
}

// Of returns the model of a member that is on this rank.
func (l LanguageModels) Of(m *spmd.Member) (*lm.Model, error) {
	if model := l[m.Group()][m.Index()]; model != nil {
		return model, nil
	}
	return nil, fmt.Errorf("%s %d: the job has no language model (runner.task_type sft or reasoning)", m.Group(),
		m.Index())
}

// TextWeights bring the trained parameters of a language model from the actors to the workers that
// answer and infer; see collectives.Weights. A version is the number of iterations that went into it.
// On an actor's node the parameters are read in place: an actor changes them only after it has all
// answers of the iteration, when nobody reads. With adapters, they alone travel.
type TextWeights struct {
	weights *collectives.Weights // nil: neither an actor nor a reader is on this rank
	first   int                  // the first actor of this rank, which publishes for all of its actors; -1: none
	readers map[string]int       // the first reader of each component
	inPlace map[*lm.Model]bool   // models that are an actor's
}

// NewTextWeights makes the weights between this rank's models. Collective over the world.
func NewTextWeights(ctx context.Context, w *spmd.World, j *job.Job, models LanguageModels) (*TextWeights, error) {
	t := &TextWeights{first: -1, readers: map[string]int{}, inPlace: map[*lm.Model]bool{}}
	var here *lm.Model
	var ranks []int
	for _, of := range readers {
		t.readers[of] = len(ranks)
		if j.Placement.Has(of) {
			ranks = append(ranks, j.Placement.Group(of).Ranks...)
		}
		for _, model := range models[of] {
			here = model
		}
	}
	for m, model := range models["actor"] {
		t.inPlace[model] = true
		if t.first < 0 || m < t.first {
			t.first, here = m, model
		}
	}
	if here == nil {
		return t, nil
	}
	spec := weightsSpec(j, here.Params)
	spec.Label, spec.Sources, spec.Readers = "weights", j.Placement.Group("actor").Ranks, ranks
	spec.State = here.Params.State()
	var err error
	t.weights, err = collectives.NewWeights(ctx, w, spec)
	return t, err
}

// Publish makes the actors' parameters the newest version. Every actor calls it.
func (t *TextWeights) Publish(ctx context.Context, actor int, version int64) error {
	if actor != t.first {
		return nil
	}
	return t.weights.Publish(ctx, version)
}

// A weightsEnd is a reader's model, whose parameters follow the weights.
type weightsEnd struct {
	model   *lm.Model
	reader  *collectives.WeightsReader
	inPlace bool
	version int64
}

// end returns the end of member m of a component that reads.
func (t *TextWeights) end(m *spmd.Member, model *lm.Model) weightsEnd {
	reader := t.weights.Reader(t.readers[m.Group()] + m.Index())
	return weightsEnd{model: model, reader: reader, inPlace: t.inPlace[model], version: -1}
}

// SyncModelFromActor makes the model use that version of the weights.
func (e *weightsEnd) SyncModelFromActor(ctx context.Context, version int64) error {
	state, got, err := e.reader.Adopt(ctx, version)
	if err != nil {
		return err
	}
	if e.version = got; !e.inPlace {
		e.model.Params.View(state)
	}
	return nil
}

// Close is called on every rank when there is nothing more to publish.
func (t *TextWeights) Close() {
	if t != nil {
		t.weights.Close()
	}
}

// sortedGroups sorts groups by their numbers.
func sortedGroups(all []*answers) []*answers {
	slices.SortFunc(all, func(a, b *answers) int { return a.group - b.group })
	return all
}
