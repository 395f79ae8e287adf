package play

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A part has one actor's rows [lo, hi) of a route, and their trajectory. A tensor that the trajectory lacks is the zero
// series.
type part struct {
	lo, hi                int
	obs                   []series[byte] // the observations [T, n, ...], in the policy's order
	nextObs               []series[byte] // the observations after the step; only in transitions
	action                series[byte]
	reward                series[float32]
	logProb, value        series[byte]    // not in transitions
	next                  series[float32] // not in transitions
	hidden                series[byte]    // hidden states [T, n, M] of a recurrent policy
	latent                series[byte]    // denoising chains [T, n, K]
	terminated, truncated series[byte]
	mask                  series[byte] // 0 for steps that training skips
	status                series[byte] // in transitions of simulators that may fail
	intervened            series[byte] // in transitions of environments in which a person may act
	over                  []bool       // the episode ended before this step, and the environment idles
	ended                 []bool       // the last step ended an episode
}

// A series has the elements or bytes of a tensor [T, n, ...] of a trajectory. The zero series has none. Making a view
// of the tensor at each time would take longer than a step takes in many environments.
type series[E any] struct {
	all  []E
	each int // number of elements at a time
}

// seriesOf returns the series of a tensor. The result is zero if t is.
func seriesOf[E any](t tensor.Tensor, elements func(tensor.Tensor) []E) (s series[E]) {
	if !t.IsZero() {
		s.all = elements(t)
		s.each = len(s.all) / t.Dim(0)
	}
	return s
}

// at returns the elements of time t.
func (s *series[E]) at(t int) []E { return s.all[t*s.each : (t+1)*s.each] }

// exists reports whether the trajectory has the tensor.
func (s *series[E]) exists() bool { return s.all != nil }

// abort excludes the episode of row j from training. The simulator aborted this episode at time t.
func (p *part) abort(t, j int) {
	if !p.mask.exists() {
		return
	}
	for s := t; s >= 0; s-- {
		term, trunc := p.terminated.at(s), p.truncated.at(s)
		each := len(trunc) / len(p.ended)
		var ends byte
		for i := j * each; i < (j+1)*each; i++ {
			ends |= term[i] | trunc[i]
		}
		if s < t && ends != 0 {
			return
		}
		p.mask.at(s)[j] = 0
	}
}

// intervene records what a person did at time t in place of the policy: transitions have the actions that were taken,
// and other trajectories leave the step out of training.
func (p *part) intervene(t int, step *env.Step) {
	if step.Intervened.IsZero() {
		return
	}
	chunk := step.Intervened.Dim(1)
	size := len(step.Taken.Bytes()) / len(step.Intervened.U8())
	for j := range p.ended {
		n, any := p.lo+j, byte(0)
		if steps, _ := step.Took(n); !p.over[j] && step.StatusOf(n) == env.Normal {
			for k, yes := range step.Intervened.U8()[n*chunk:][:steps] {
				if yes == 0 {
					continue
				}
				if any = 1; p.intervened.exists() {
					copy(p.action.at(t)[(j*chunk+k)*size:][:size], step.Taken.Bytes()[(n*chunk+k)*size:])
				}
			}
		}
		switch {
		case p.intervened.exists():
			p.intervened.at(t)[j] = any
		case any != 0 && p.mask.exists():
			p.mask.at(t)[j] = 0
		}
	}
}

// copyNext copies the observations after a step to dst: a row of finalObs if the episode has ended, else a row of obs.
func (p *part) copyNext(dst []byte, obs, finalObs tensor.Tensor) {
	copy(dst, obs.Slice(p.lo, p.hi).Bytes())
	size := finalObs.Len() / finalObs.Dim(0) * finalObs.DType().Size()
	for j, ended := range p.ended {
		if ended {
			copy(dst[j*size:(j+1)*size], finalObs.Bytes()[(p.lo+j)*size:])
		}
	}
}

// markLive sets the mask of time t: 0 for an idle environment, else 1.
func (p *part) markLive(t int, fresh, idles bool) {
	mask := p.mask.at(t)
	for j := range mask {
		if fresh {
			p.over[j] = false
		} else if p.ended[j] && idles {
			p.over[j] = true
		}
		mask[j] = 1
		if p.over[j] {
			mask[j] = 0
		}
	}
}

// record copies rows of src, beginning at row lo, to time t of dst [T, n, ...].
func record(dst *series[byte], t int, src *tensor.Tensor, lo int) {
	from := src.Bytes()
	if lo > 0 {
		from = from[lo*(len(from)/src.Dim(0)):]
	}
	copy(dst.at(t), from)
}
