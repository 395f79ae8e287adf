package export

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// Names of inputs and outputs that are not observations.
const (
	beginName  = "begin"
	memoryName = "memory"
	noiseName  = "noise"
	actionName = "action"
	valueName  = "value"

	framesSuffix = ".frames" // after the name of an observation: its older frames
	nextSuffix   = ".next"   // after the name of an input that the next step needs
)

// A Manifest is policy.json: what a policy reads and writes.
type Manifest struct {
	Task   string `json:"task"`
	Run    string `json:"run"`
	Step   int64  `json:"step"`
	Build  string `json:"build"`
	Sample bool   `json:"sample"` // whether actions are drawn, by the input noise
	// The environment takes the actions of an output one after the other, each of them ActionRepeat times. Then it asks
	// the policy again.
	Chunk        int       `json:"chunk"`
	ActionRepeat int       `json:"action_repeat"`
	Inputs       []Binding `json:"inputs"`
	Outputs      []Binding `json:"outputs"`
}

// A Binding is an input or an output. Low and High are a number for all elements, or a list with a number for each
// element. null means that there is no bound.
type Binding struct {
	Name  string `json:"name"`
	Type  string `json:"type"`  // float32, uint8, int32 or bool
	Shape []any  `json:"shape"` // "N", then the shape of a row
	Low   any    `json:"low"`
	High  any    `json:"high"`
	Note  string `json:"note,omitempty"`
}

var typeNames = map[tensor.DType]string{tensor.F32: "float32", tensor.U8: "uint8", tensor.I32: "int32"}

func binding(name, kind string, row []int, note string) Binding {
	b := Binding{Name: name, Type: kind, Shape: []any{"N"}, Note: note}
	for _, d := range row {
		b.Shape = append(b.Shape, d)
	}
	return b
}

// row returns the shape of a row, without the batch.
func (b Binding) row() (dims []int) {
	for _, d := range b.Shape[1:] {
		dims = append(dims, d.(int))
	}
	return dims
}

func (b Binding) len() int { return product(b.row()) }

func (b Binding) elementType() int64 {
	for dtype, name := range typeNames {
		if name == b.Type {
			return elementTypes[dtype]
		}
	}
	return boolType
}

// within returns b with the bounds of the space s.
func (b Binding) within(s env.Space) Binding {
	var low, high []any
	for k := range s.Dim() {
		l, h := s.Range(k)
		low, high = append(low, finite(l)), append(high, finite(h))
	}
	b.Low, b.High = brief(low), brief(high)
	return b
}

// finite returns x as a bound for JSON: nil if x is infinite, which means that there is no bound.
func finite(x float64) any {
	if math.IsInf(x, 0) {
		return nil
	}
	return x
}

// brief shortens a list of equal elements to this element. It returns other lists unchanged.
func brief(list []any) any {
	if slices.ContainsFunc(list, func(x any) bool { return x != list[0] }) {
		return list
	}
	return list[0]
}

// describe returns the Manifest of p, whose program is x.
func (x *program) describe(p *TrainedPolicy) (*Manifest, error) {
	d := &Manifest{Task: p.Task, Run: p.Run, Step: p.Step, Build: p.Build, Sample: p.Sample, Chunk: x.chunks,
		ActionRepeat: max(p.Env.ActionRepeat, 1)}
	in := func(b Binding) { d.Inputs = append(d.Inputs, b) }
	out := func(b Binding) { d.Outputs = append(d.Outputs, b) }
	action := x.values[x.action]
	row := []int{action.len()}
	if x.chunks > 1 {
		row = []int{x.chunks, action.len() / x.chunks}
	}
	out(binding(actionName, typeNames[action.dtype], row, "").within(p.Spec.Action))
	if x.critic != none {
		out(binding(valueName, "float32", x.values[x.critic].shape,
			cmp.Or(p.ValueNote, "discounted return of the rewards in training, as the critic estimates it")))
	}
	// kept adds an input, and an output which is this input of the next step.
	kept := func(name, kind string, row []int, note string) {
		in(binding(name, kind, row, note+"; at first anything finite"))
		out(binding(name+nextSuffix, kind, row, "the input "+name+" of the next step"))
	}
	for _, f := range x.inputs {
		in(binding(f.Name, typeNames[f.DType], f.Shape, "").within(f.Space))
	}
	if x.begins() {
		in(binding(beginName, "bool", nil, "true for the first observation of an episode"))
	}
	for _, s := range x.steps {
		if s.op == stack {
			row := x.values[s.in[0]]
			kept(s.name+framesSuffix, typeNames[row.dtype], append([]int{x.frames - 1}, row.shape...),
				"older frames of "+s.name)
		}
	}
	if x.memory > 0 {
		kept(memoryName, "float32", []int{x.memory}, "recurrent state")
	}
	if x.noise != none {
		note, low, high := "standard normal numbers, independent", any(nil), any(nil)
		if action.dtype == tensor.I32 {
			note, low, high = "uniform random numbers in [0, 1), independent", 0, 1
		}
		b := binding(noiseName, "float32", row, note)
		b.Low, b.High = low, high
		in(b)
	}
	return d, d.annotate(p.Notes)
}

// annotate sets the notes of inputs and outputs, by name. It returns an error if a name is unknown, or if two inputs or
// outputs have the same name.
func (d *Manifest) annotate(notes map[string]string) error {
	seen := map[string]bool{}
	notes = maps.Clone(notes)
	for _, list := range [][]Binding{d.Inputs, d.Outputs} {
		for i := range list {
			b := &list[i]
			if seen[b.Name] {
				return fmt.Errorf("export: observation %q: the export has an input or output of that name: "+
					"expected another name", b.Name)
			}
			seen[b.Name] = true
			if note, given := notes[b.Name]; given {
				b.Note = note
				delete(notes, b.Name)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		return fmt.Errorf("export: --note %s: no such input or output: expected one of %s", name,
			strings.Join(slices.Sorted(maps.Keys(seen)), ", "))
	}
	return nil
}
