package play

import (
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// A part has one actor's rows of a route, [lo, hi), and their trajectory.
type part struct {
	lo, hi int
	obs    []tensor.Tensor // [T, n, ...] of each observation, in the policy's order
	// The observations after the step, in transitions; else none.
	nextObs               []tensor.Tensor
	action, reward        tensor.Tensor
	logProb, value, next  tensor.Tensor // the zero Tensor in transitions
	hidden                tensor.Tensor // hidden states [T, n, M]; the zero Tensor if the policy is not recurrent
	latent                tensor.Tensor // denoising chains [T, n, K]; the zero Tensor without them
	terminated, truncated tensor.Tensor
	mask                  tensor.Tensor // the zero Tensor if every step counts
	status                tensor.Tensor // in transitions of simulators that may fail; else the zero Tensor
	// The episode ended before this step, and the environment idles.
	over  []bool
	ended []bool // the last step ended an episode
}

// abort excludes from training the steps of row j's episode, which was aborted at time t.
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

// recordNext records the observations after step t. If an episode ended, this is its final observation.
func (p *part) recordNext(t int, names []string, step *env.Step) {
	for i, next := range p.nextObs {
		p.copyNext(next.At(t), step.Obs.Must(names[i]), step.FinalObs.Must(names[i]))
	}
}

// copyNext copies the rows of p to dst: from final if an episode ended, else from obs.
func (p *part) copyNext(dst, obs, final tensor.Tensor) {
	dst.CopyFrom(obs.Slice(p.lo, p.hi))
	size := final.Len() / final.Dim(0) * final.DType().Size()
	for j, ended := range p.ended {
		if ended {
			copy(dst.Bytes()[j*size:(j+1)*size], final.Bytes()[(p.lo+j)*size:])
		}
	}
}

// markLive sets the mask of time t: 0 for an environment whose episode has ended before, else 1.
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
func record(dst tensor.Tensor, t int, src tensor.Tensor, lo int) {
	to := dst.At(t).Bytes()
	at := lo * (src.Len() / src.Dim(0)) * src.DType().Size()
	copy(to, src.Bytes()[at:])
}
