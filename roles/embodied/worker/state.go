package worker

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/policy/nn"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/state"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A worker is a worker of this package.
type worker interface {
	Member() *spmd.Member
	Part() any
	Retire(part any) error
	parts(state.Purpose) []state.Part
}

// A stateful turns a worker into a loop.Worker.
type stateful struct{ worker }

// State lists the worker's state.
func (w stateful) State(p state.Purpose) []state.Part { return w.parts(p) }

// AppendStates appends the workers of g on this rank to all. g may be nil.
func AppendStates[W worker](all []loop.Worker, g *spmd.Group[W]) []loop.Worker {
	if g != nil {
		for _, w := range g.Here() {
			all = append(all, stateful{w})
		}
	}
	return all
}

// parts returns nil: the worker has no state.
func (b *base) parts(state.Purpose) []state.Part { return nil }

// rows returns the slice of the environments lo to hi in tensors of all environments.
func (b *base) rows(lo, hi int) nn.Slice { return nn.Slice{From: lo, To: hi, Whole: b.plan.Train.Envs} }

// parts returns the model, the state of the algorithm, and counters. In a move it also has the rollouts that wait.
func (a *ActorWorker) parts(p state.Purpose) []state.Part {
	parts := state.PartsOf(state.ModelFile, "", a.policy.Params(), a.policy.Params())
	for i := range parts {
		parts[i].Spare = a.m.Index() > 0
	}
	parts = append(parts, state.Part{File: state.TrainerFile, Make: a.algorithm, Fill: func(given state.Given) (
		[]state.Part, func() error) {
		return a.fillAlgorithm(given, p.Move)
	}}, state.Number(state.Moves, "iterations", a.replicas.Iterations, func(n int64) { a.replicas.Iterations = n }))
	if a.arrivals == nil {
		return parts
	}
	taken := state.Number(state.TrainerFile, loop.TakenRollouts, a.arrivals.Rollouts, func(n int64) {
		a.arrivals.Rollouts = n
		for _, in := range a.inputs {
			in.received = n
		}
	})
	taken.Spare = a.m.Index() > 0
	return append(parts, taken, state.Tensors{Prefix: "queue", Save: a.packQueues, Load: a.unpackQueues}.Part())
}

const (
	// Names of tensors that an algorithm keeps for each environment begin with perEnv: see algo.Algorithm.
	perEnv = "env."
	// In the file of environments the names of an algorithm's tensors begin with ofTrainer.
	ofTrainer = "trainer."
)

// saved returns the algorithm's state. rings has the rings of a replay buffer: see algo.Replayer.
func (a *ActorWorker) saved() (d tensor.Dict, rings map[string]int, err error) {
	if r, ok := a.algo.(algo.Replayer); ok {
		d, rings = r.SaveInPlace()
		return d, rings, nil
	}
	d, err = a.algo.Save()
	return d, nil, err
}

// algorithm returns the parts of the algorithm's state.
func (a *ActorWorker) algorithm() (parts []state.Part, err error) {
	d, rings, err := a.saved()
	if err != nil {
		return nil, err
	}
	for i := range d.Len() {
		name, t := d.Entry(i)
		var p state.Part
		switch used, isRing := rings[name]; {
		case isRing:
			p = state.RingPart(state.EnvFile, ofTrainer+name, t, used, a.rows(a.share()))
		case strings.HasPrefix(name, perEnv):
			p = state.PartOf(state.EnvFile, ofTrainer+name, t, a.rows(a.share()))
		default:
			p = state.PartOf(state.TrainerFile, name, t, nn.Slice{})
			p.Spare = a.m.Index() > 0
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// fillAlgorithm returns the parts to load into the algorithm, and the function that loads them. A part is read into the
// algorithm's own tensor if the shape fits, else into new memory. If only weights are loaded, there are no parts, and
// the algorithm's other networks follow the policy.
func (a *ActorWorker) fillAlgorithm(given state.Given, moved bool) (parts []state.Part, load func() error) {
	if !given.Has(state.TrainerFile) {
		if f, ok := a.algo.(algo.Follower); ok {
			return nil, func() error {
				f.Follow()
				return nil
			}
		}
		return nil, nil
	}
	own, rings, err := a.saved()
	if err != nil {
		return nil, func() error { return err }
	}
	var d tensor.Dict
	for _, file := range []string{state.TrainerFile, state.EnvFile} {
		for _, f := range given[file] {
			name, rows, ok := f.Name, nn.Slice{}, f.Name != loop.TakenRollouts
			if file == state.EnvFile {
				name, ok = strings.CutPrefix(name, ofTrainer)
				rows = a.rows(a.share())
			}
			if !ok {
				continue
			}
			shape := state.Sliced(f.Shape, rows)
			t, ok := own.Get(name)
			_, isRing := rings[name]
			switch {
			case isRing && len(shape) > 1 && shape[1] <= t.Dim(1):
				parts = append(parts, state.RingPart(file, f.Name, t, shape[1], rows))
			case !ok || t.DType() != f.DType || !slices.Equal(t.Shape(), shape):
				t = tensor.New(f.DType, shape...)
				fallthrough
			default:
				parts = append(parts, state.PartOf(file, f.Name, t, rows))
			}
			d.Set(name, t)
		}
	}
	return parts, func() error {
		if err := a.algo.Load(d); err != nil {
			return err
		}
		if x, ok := a.algo.(algo.Interruptible); ok && !moved && !episodesGoOn(given) {
			x.Interrupt()
		}
		return nil
	}
}

// episodesGoOn reports whether the saved state of environments has running episodes.
func episodesGoOn(given state.Given) bool {
	_, ok := given.Find(state.EnvFile, play.RunningReturn)
	return ok
}

// share returns the range of environments that this actor trains on.
func (a *ActorWorker) share() (lo, hi int) {
	n := a.plan.Train.Envs / a.plan.Actors
	return a.m.Index() * n, (a.m.Index() + 1) * n
}

// parts returns the hidden states of the worker's environments, and the weights if the next rollout uses them again. In
// a move of an asynchronous run it also has the unfinished rollouts.
func (r *RolloutWorker) parts(p state.Purpose) (parts []state.Part) {
	for _, l := range r.routes {
		rows := l.rec.Hidden.Rows()
		if rows.IsZero() {
			continue
		}
		hidden := []state.Part{state.PartOf(state.EnvFile, policy.HiddenState, rows, r.rows(l.Lo, l.Hi))}
		hidden[0].Partial = true
		parts = append(parts, state.Part{File: state.EnvFile, Make: func() ([]state.Part, error) { return hidden, nil },
			Fill: func(given state.Given) ([]state.Part, func() error) {
				if !p.Move && !episodesGoOn(given) { // new episodes begin without a hidden state
					return nil, nil
				}
				return hidden, nil
			}})
	}
	if !r.plan.SyncsAt(p.Step) {
		r.policy.Params().View(r.state)
		weights := state.PartsOf(state.RolloutFile, "", r.policy.Params(), r.policy.Params())
		parts = append(parts, state.Part{File: state.RolloutFile, Spare: r.m.Index() > 0,
			Make: func() ([]state.Part, error) { return weights, nil },
			Fill: func(given state.Given) ([]state.Part, func() error) {
				if !given.Has(state.RolloutFile) {
					return nil, nil
				}
				return weights, func() error {
					r.version = p.Step - p.Step%r.plan.SyncInterval
					return nil
				}
			}})
	}
	for i, l := range r.running {
		taken := state.Number(state.TrainerFile, loop.TakenRollouts, 0, func(n int64) { l.first = uint64(n) })
		parts = append(parts, state.Part{Fill: taken.Fill},
			state.Tensors{Prefix: fmt.Sprintf("rollout%d.", i), Save: l.pack, Load: l.unpack}.Part())
	}
	return parts
}

// parts returns the environments. If they cannot save their state, a checkpoint has only their seeds, and a move is
// refused.
func (w *EnvWorker) parts(p state.Purpose) (parts []state.Part) {
	external := w.plan.Config.Env.Train.ID() == env.ExternalID || w.plan.Config.Env.Eval.ID() == env.ExternalID
	for i, s := range w.train {
		lo, hi := w.plan.Train.StageOf(w.m.Index(), i)
		parts = append(parts, state.Tensors{File: state.EnvFile, Except: ofTrainer, Slice: w.rows(lo, hi), Load: s.Load,
			Save: func() (tensor.Dict, error) {
				if p.Move && external {
					return tensor.Dict{}, errors.New("its external simulators stay where they run: expected env on " +
						"the ranks that it has")
				}
				d, err := s.Save()
				switch {
				case !errors.Is(err, errors.ErrUnsupported):
					return d, err
				case p.Move:
					return d, fmt.Errorf("%s cannot save its state: expected env on the ranks that it has",
						w.plan.Spec.Name)
				case w.plan.WarnsOfState(w.m.Index()):
					p.Warn(w.plan.NotSaved())
				}
				return s.Seeder.Save() // a resumed run must not repeat the first seeds
			}}.Part(), state.Number(state.Moves, fmt.Sprint("at", i), int64(s.At), func(n int64) { s.At = int(n) }))
	}
	return parts
}

// parts returns the reference policy. Checkpoints have it from the actors.
func (w *InferenceWorker) parts(state.Purpose) []state.Part {
	if w.reference == nil {
		return nil
	}
	reference := []state.Part{state.PartOf(state.TrainerFile, "reference", tensor.FromU8(w.reference, len(w.reference)),
		nn.Slice{})}
	return []state.Part{{File: state.TrainerFile, Spare: true, Make: func() ([]state.Part, error) {
		if !w.known {
			return nil, nil
		}
		return reference, nil
	}, Fill: func(given state.Given) ([]state.Part, func() error) {
		if _, ok := given.Find(state.TrainerFile, reference[0].Field.Name); !ok {
			return nil, nil
		}
		return reference, func() error {
			w.known = true
			return nil
		}
	}}}
}

// merge adds the tensors of src to dst, with a prefix before their names.
func merge(dst *tensor.Dict, prefix string, src tensor.Dict) {
	for i := range src.Len() {
		name, t := src.Entry(i)
		dst.Set(prefix+name, t)
	}
}
