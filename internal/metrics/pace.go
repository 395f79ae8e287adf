package metrics

import (
	"bytes"
	"math"
	"strconv"
)

// A Pace is the work of iterations, in environment steps or trained tokens, and their time. The time leaves out
// evaluations and checkpoints. The zero value has no iterations.
type Pace struct {
	Done    float64 // environment steps, or tokens
	Seconds float64

	step, envSteps float64 // values of the last line
	lines          int
}

// Rate returns the work per second, or NaN if there is no time.
func (p *Pace) Rate() float64 {
	if !(p.Seconds > 0) {
		return math.NaN()
	}
	return p.Done / p.Seconds
}

// A PaceLine has the metrics of a line that a Pace needs. They are NaN if the line does not have them.
type PaceLine struct {
	Step, Took, Eval float64 // step, time/step, time/eval
	EnvSteps, Rate   float64 // env/steps; time/env_steps_per_second or time/tokens_per_second
}

// IterationSeconds returns the time of n iterations without the evaluation among them. step is the mean time of an
// iteration. eval is the time of the evaluation. Without an evaluation, eval is NaN or 0.
func IterationSeconds(n, step, eval float64) float64 {
	if all := n * step; eval > 0 && eval < all {
		return all - eval
	}
	return n * step
}

// Add adds a line. Lines of a step that was already added have other metrics, and are ignored.
func (p *Pace) Add(l PaceLine) {
	if !(l.Step > p.step) || !(l.Took > 0) {
		return
	}
	seconds := IterationSeconds(l.Step-p.step, l.Took, l.Eval)
	switch {
	case p.lines > 0 && l.EnvSteps >= p.envSteps:
		p.Done += l.EnvSteps - p.envSteps
	case l.Rate >= 0: // the first line: a run that continues another one begins with the steps of that run
		p.Done += l.Rate * seconds
	case l.EnvSteps > 0 && p.lines == 0:
		p.Done = l.EnvSteps
	default: // the work of these iterations is not known
		seconds = 0
	}
	p.Seconds, p.step, p.lines = p.Seconds+seconds, l.Step, p.lines+1
	if p.envSteps = l.EnvSteps; math.IsNaN(p.envSteps) {
		p.envSteps = math.Inf(1)
	}
}

// AddJSON is like Add, for a line of metrics.jsonl.
func (p *Pace) AddJSON(line []byte) {
	l := PaceLine{Number(line, "step"), Number(line, "time/step"), Number(line, "time/eval"), Number(line, "env/steps"),
		Number(line, "time/env_steps_per_second")}
	if math.IsNaN(l.Rate) {
		l.Rate = Number(line, "time/tokens_per_second")
	}
	p.Add(l)
}

// ReadPace returns the Pace of the metrics.jsonl at path. It is zero if the file cannot be read.
func ReadPace(path string) (p Pace) {
	ReadLines(path, 0, func(line []byte, _ int64) error {
		p.AddJSON(line)
		return nil
	})
	return p
}

// Number returns the value of a metric in a line of metrics.jsonl, or NaN. There may be blanks around the value. Number
// is faster than a JSON decoder.
func Number(line []byte, name string) float64 {
	for rest, found := line, true; found; {
		if _, rest, found = bytes.Cut(rest, []byte(`"`+name+`"`)); !found {
			break
		}
		value, ok := bytes.CutPrefix(bytes.TrimLeft(rest, blanks), []byte(":"))
		if end := bytes.IndexAny(value, ",}"); ok && end >= 0 {
			x, err := strconv.ParseFloat(string(bytes.Trim(value[:end], blanks)), 64)
			if err == nil {
				return x
			}
			break
		}
	}
	return math.NaN()
}

// blanks are the characters that JSON allows between its parts.
const blanks = " \t\r\n"
