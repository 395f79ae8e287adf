package env

import "github.com/rlinf/rlinf/tensor"

// A Judge decides from an image whether the task is done.
type Judge struct {
	Camera string // the observation that it sees
	// Score computes a score for each image, [N,…], and writes it to score. The score of an image must not depend on
	// the other images.
	Score     func(score []float32, images tensor.Tensor)
	Threshold float32 // a score above it is a success
	Hold      int     // number of successes in a row that terminate an episode; 0 if none do
	Terminal  bool    // only the last step of an episode has a score
	// The reward is Weight·score + EnvWeight·(reward of the wrapped Vec).
	Weight, EnvWeight float32
}

// Judged lets a Judge decide about rewards and terminations, before anybody else sees the step. The Judge sees the
// observation after each step. If the step ends the episode, this is the last observation of the episode, and not the
// first of the next. Its Step takes one action per environment and needs seeds. If the simulator has lost an episode,
// the episode has no score.
type Judged struct {
	wrapper
	judge  Judge
	images tensor.Tensor // [N,…]: the observation after each step
	score  []float32
	held   tensor.Tensor // I32 [N]: number of successes in a row
	done   []bool        // the Judge has ended the episode
}

// NewJudged wraps v, which must have the observation j.Camera.
func NewJudged(v Vec, j Judge) *Judged {
	n := v.Len()
	w := &Judged{wrapper: wrapper{Vec: v}, judge: j, score: make([]float32, n), held: tensor.New(tensor.I32, n),
		done: make([]bool, n)}
	for _, f := range v.Spec().Obs {
		if f.Name == j.Camera {
			w.images = tensor.New(f.DType, append([]int{n}, f.Shape...)...)
		}
	}
	w.own = memory{{"judge.held", w.held}}
	return w
}

// Reset starts new episodes; see Vec.
func (w *Judged) Reset(mask []bool, seeds []uint64, out *Step) error {
	for n := range w.done {
		if mask == nil || mask[n] {
			w.held.I32()[n] = 0
		}
	}
	return w.Vec.Reset(mask, seeds, out)
}

// Step takes an action in every environment; see Vec.
func (w *Judged) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	if err := w.Vec.Step(action, seeds, out); err != nil {
		return err
	}
	w.look(out)
	w.judge.Score(w.score, w.images)
	reward, term, trunc, held := out.Reward.F32(), out.Terminated.U8(), out.Truncated.U8(), w.held.I32()
	some := false
	for n, score := range w.score {
		if out.StatusOf(n) != Normal {
			held[n], w.done[n], reward[n] = 0, false, 0
			continue
		}
		over := term[n]|trunc[n] != 0
		if held[n]++; score <= w.judge.Threshold {
			held[n] = 0
		}
		ends := w.judge.Hold > 0 && int(held[n]) >= w.judge.Hold
		if w.judge.Terminal && !over && !ends {
			score = 0
		}
		reward[n] = w.judge.Weight*score + w.judge.EnvWeight*reward[n]
		if ends {
			term[n] = 1
		}
		if w.done[n] = ends && !over; w.done[n] {
			some = true
		}
		if over || ends {
			held[n] = 0
		}
	}
	if !some {
		return nil
	}
	copyRows(out.FinalObs, out.Obs, w.done)
	return w.Vec.Reset(w.done, seeds, out)
}

// look copies the observation after each step to images.
func (w *Judged) look(out *Step) {
	to, obs, final := w.images.Bytes(), out.Obs.Must(w.judge.Camera).Bytes(), out.FinalObs.Must(w.judge.Camera).Bytes()
	each := len(to) / w.Len()
	for n := range w.done {
		from := obs
		if out.Terminated.U8()[n]|out.Truncated.U8()[n] != 0 {
			from = final
		}
		copy(to[n*each:(n+1)*each], from[n*each:(n+1)*each])
	}
}
