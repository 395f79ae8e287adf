package play

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// TransitionEncoder encodes steps of environments as transitions of demonstrations: see algo.WriteDemos.
type TransitionEncoder struct {
	Fields []tensor.Field // the tensors of one transition
	spec   env.Spec
	before tensor.Dict // the observations with which the next transitions begin
	next   bool        // transitions have next observations
}

// NewTransitionEncoder returns the TransitionEncoder of n environments, which take chunk actions in a step. Transitions
// have next observations if next is true.
func NewTransitionEncoder(spec env.Spec, n, chunk int, next bool) *TransitionEncoder {
	spec.Obs = slices.DeleteFunc(slices.Clone(spec.Obs), func(f env.Field) bool { return f.Name == env.ExpertAction })
	t := &TransitionEncoder{spec: spec, before: spec.NewStep(n, 1).Obs, next: next}
	for _, section := range []string{algo.Observations, algo.NextObservations} {
		for _, f := range spec.Obs {
			if next || section == algo.Observations {
				t.Fields = append(t.Fields, tensor.Field{Name: section + "." + f.Name, DType: f.DType, Shape: f.Shape})
			}
		}
	}
	t.Fields = append(t.Fields,
		tensor.Field{Name: algo.FieldAction, DType: spec.Action.DType, Shape: []int{chunk, spec.Action.Dim()}},
		tensor.Field{Name: algo.FieldReward, DType: tensor.F32},
		tensor.Field{Name: algo.FieldTerminated, DType: tensor.U8},
		tensor.Field{Name: algo.FieldTruncated, DType: tensor.U8})
	if spec.Intervene {
		t.Fields = append(t.Fields, tensor.Field{Name: algo.FieldIntervened, DType: tensor.U8})
	}
	return t
}

// Header returns the header of a file with these episodes.
func (t *TransitionEncoder) Header(episodes []algo.DemoEpisode, rate float64) algo.DemoHeader {
	return algo.DemoHeader{Env: t.spec.Name, Fields: t.Fields, Episodes: episodes,
		HasSuccess: t.spec.InfoIndex(env.Success) >= 0, SuccessRate: rate}
}

// Size returns the number of bytes of a transition.
func (t *TransitionEncoder) Size() (size int) {
	for _, f := range t.Fields {
		size += f.Bytes()
	}
	return size
}

// Begin sets the observations with which the next transitions begin.
func (t *TransitionEncoder) Begin(obs tensor.Dict) {
	for i := range t.before.Len() {
		name, to := t.before.Entry(i)
		to.CopyFrom(obs.Must(name))
	}
}

// Append appends the transition of environment i to out. actions are the actions of the step, and now is its result. If
// an episode has ended in this step, final has the observations after it. The reward is the sum over a chunk of
// actions. The actions of a person replace those of the policy.
func (t *TransitionEncoder) Append(out []byte, i int, actions tensor.Tensor, now *env.Step, final tensor.Dict) []byte {
	for _, f := range t.spec.Obs {
		out = appendRow(out, t.before.Must(f.Name), i)
	}
	after, chunk := now.Obs, now.Reward.Dim(1)
	if _, ended := now.Took(i); ended {
		after = final
	}
	for _, f := range t.spec.Obs {
		if t.next {
			out = appendRow(out, after.Must(f.Name), i)
		}
	}
	acted := len(out)
	out = appendRow(out, actions, i)
	reward, at := float32(0), len(out)
	out = append(out, 0, 0, 0, 0, 0, 0)
	for k := i * chunk; k < (i+1)*chunk; k++ {
		reward += now.Reward.F32()[k]
		out[at+4] |= now.Terminated.U8()[k]
		out[at+5] |= now.Truncated.U8()[k]
	}
	binary.LittleEndian.PutUint32(out[at:], math.Float32bits(reward))
	if t.spec.Intervene {
		out = append(out, 0)
		steps, _ := now.Took(i)
		size := (at - acted) / chunk
		for k, yes := range now.Intervened.U8()[i*chunk:][:steps] {
			if yes != 0 {
				copy(out[acted+k*size:acted+(k+1)*size], now.Taken.Bytes()[(i*chunk+k)*size:])
				out[len(out)-1] = 1
			}
		}
	}
	return out
}

// appendRow appends the bytes of row i of x.
func appendRow(out []byte, x tensor.Tensor, i int) []byte {
	size := len(x.Bytes()) / x.Dim(0)
	return append(out, x.Bytes()[i*size:(i+1)*size]...)
}

// Episode describes an episode. first is its first transition, and n is the number of its transitions.
func (t *TransitionEncoder) Episode(e env.Episode, first []byte, n int) algo.DemoEpisode {
	return algo.DemoEpisode{Len: n, Return: e.Return, Success: e.SuccessOnce, Instruction: t.instruction(e.Task, first)}
}

// instruction returns the instruction in the observations of a transition. Without one it returns the name of the task
// with this number, counted from 1.
func (t *TransitionEncoder) instruction(task int, transition []byte) (text string) {
	if task > 0 {
		text = t.spec.Tasks[task-1]
	}
	for k, f := range t.spec.Obs {
		size := t.Fields[k].Bytes()
		if f.Words != nil || f.Text {
			value := tensor.New(f.DType, f.Shape...)
			copy(value.Bytes(), transition)
			text = said(f, value)
		}
		transition = transition[size:]
	}
	return text
}
