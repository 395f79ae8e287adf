package planner

// A Trial is what real iterations took with a layout, as medians in seconds.
type Trial struct {
	Layout Layout             `json:"layout"`
	Step   float64            `json:"step"`   // a whole iteration
	Phases map[string]float64 `json:"phases"` // by name
}

// callsAtMost bounds what is put down to calls and messages of an iteration. More must be work that costs more than
// its operations did.
const callsAtMost = 500e-6

// Correct sets p.Real from real iterations of one worker of each kind: first in one goroutine, without messages, then,
// if there is such a trial, with messages in each step.
func Correct(m *Machine, p *Profile, inTurn Trial, messages *Trial) {
	p.Real = Real{Calls: map[string]float64{}, Scale: map[string]float64{}}
	made := Predict(m, p, inTurn.Layout, Steady())
	rest := inTurn.Step
	for _, ph := range made.Phases {
		took, ok := inTurn.Phases[ph.Name]
		if !ok {
			continue
		}
		rest -= took
		calls := min(max(0, took-ph.Seconds), callsAtMost)
		p.Real.Calls[ph.Name] = calls
		if ph.Seconds > 0 && ph.Seconds > calls {
			p.Real.Scale[ph.Name] = (took - calls) / ph.Seconds
		}
	}
	p.Real.Rest = max(0, rest)
	if w := &p.Work; messages != nil && w.Steps > 0 {
		with := Predict(m, p, messages.Layout, Steady())
		late := messages.Phases[GenerateRollouts] - with.Phase(GenerateRollouts).Seconds
		scale := 1.0
		if f := p.Real.Scale[GenerateRollouts]; f > 0 {
			scale = f
		}
		p.Real.Hop = max(0, late/scale/float64(2*w.Steps*w.Epochs))
	}
}
