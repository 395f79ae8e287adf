package play

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A part has one actor's rows [lo, hi) of a route, and their trajectory. A tensor that the trajectory lacks is the zero
// Tensor.
type part struct {
	lo, hi                int
	obs                   []tensor.Tensor // the observations [T, n, ...], in the policy's order
	nextObs               []tensor.Tensor // the observations after the step; only in transitions
	action, reward        tensor.Tensor
	logProb, value, next  tensor.Tensor // not in transitions
	hidden                tensor.Tensor // hidden states [T, n, M] of a recurrent policy
	latent                tensor.Tensor // denoising chains [T, n, K]
	terminated, truncated tensor.Tensor
	mask                  tensor.Tensor // 0 for steps that training skips
	status                tensor.Tensor // in transitions of simulators that may fail
	intervened            tensor.Tensor // in transitions of environments in which a person may act
	over                  []bool        // the episode ended before this step, and the environment idles
	ended                 []bool        // the last step ended an episode
}

// abort excludes the episode of row j from training. The simulator aborted this episode at time t.
func (p *part) abort(t, j int) {
	if p.mask.IsZero() {
		return
	}
	for s := t; s >= 0; s-- {
		term, trunc := p.terminated.At(s).U8(), p.truncated.At(s).U8()
		each := len(trunc) / len(p.ended)
		var ends byte
		for i := j * each; i < (j+1)*each; i++ {
			ends |= term[i] | trunc[i]
		}
		if s < t && ends != 0 {
			return
		}
		p.mask.At(s).U8()[j] = 0
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
				if any = 1; !p.intervened.IsZero() {
					copy(p.action.At(t).Bytes()[(j*chunk+k)*size:][:size], step.Taken.Bytes()[(n*chunk+k)*size:])
				}
			}
		}
		switch {
		case !p.intervened.IsZero():
			p.intervened.At(t).U8()[j] = any
		case any != 0 && !p.mask.IsZero():
			p.mask.At(t).U8()[j] = 0
		}
	}
}

// copyNext copies the observations after a step to dst: a row of finalObs if the episode has ended, else a row of obs.
func (p *part) copyNext(dst, obs, finalObs tensor.Tensor) {
	dst.CopyFrom(obs.Slice(p.lo, p.hi))
	size := finalObs.Len() / finalObs.Dim(0) * finalObs.DType().Size()
	for j, ended := range p.ended {
		if ended {
			copy(dst.Bytes()[j*size:(j+1)*size], finalObs.Bytes()[(p.lo+j)*size:])
		}
	}
}

// markLive sets the mask of time t: 0 for an idle environment, else 1.
func (p *part) markLive(t int, fresh, idles bool) {
	mask := p.mask.At(t).U8()
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
func record(dst *tensor.Tensor, t int, src *tensor.Tensor, lo int) {
	from := src.Bytes()
	if lo > 0 {
		from = from[lo*(len(from)/src.Dim(0)):]
	}
	copy(dst.At(t).Bytes(), from)
}
