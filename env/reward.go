package env

import (
	"slices"

	"github.com/rlinf/rlinf/tensor"
)

// TaskReward is the figure with the task's own reward, in a Vec that changes the Reward. If an action is repeated, the
// action's first row has the sum of the rewards, and its other rows have 0.
const TaskReward = "task_reward"

// RewardScale multiplies rewards by a factor, and clips them. Before that, it can subtract the
// previous reward of the episode. It adds TaskReward to the Info, so that Episodes still reports the
// task's own returns.
type RewardScale struct {
	wrapper
	coef, clip float32
	// [N]: the task's last reward in each running episode, 0 before the first step; nil if rewards
	// are not made relative
	last []float32
	spec Spec
	info tensor.Tensor // F32 [N,K·Repeats,I] for the wrapped Vec; the zero Tensor if it has no Info
}

// NewRewardScale wraps v. A reward r becomes coef·r, clipped to ±clip if clip is not 0. If relative
// is true, the previous reward of the episode is first subtracted from r.
func NewRewardScale(v Vec, coef, clip float32, relative bool) *RewardScale {
	w := &RewardScale{wrapper: wrapper{Vec: v}, coef: coef, clip: clip, spec: v.Spec()}
	if relative {
		w.last = make([]float32, v.Len())
		w.own = memory{{"last_reward", tensor.FromF32(w.last, v.Len())}}
	}
	w.spec.Info = append(slices.Clip(w.spec.Info), TaskReward)
	return w
}

// Spec returns the Spec of the wrapped Vec, with TaskReward as the last Info.
func (w *RewardScale) Spec() Spec { return w.spec }

// Reset starts new episodes; see Vec.
func (w *RewardScale) Reset(mask []bool, seeds []uint64, out *Step) error {
	if err := w.Vec.Reset(mask, seeds, out); err != nil {
		return err
	}
	for n := range w.last {
		if mask == nil || mask[n] {
			w.last[n] = 0
		}
	}
	return nil
}

// Step takes the actions of one chunk; see Vec.
func (w *RewardScale) Step(action tensor.Dict, seeds []uint64, out *Step) error {
	a, err := w.spec.CheckStep(w.Len(), action, seeds, out)
	if err != nil {
		return err
	}
	rows, inside := a.Dim(1)*w.spec.Repeats(), len(w.spec.Info)-1
	if inside > 0 && (w.info.IsZero() || w.info.Dim(1) != rows) {
		w.info = tensor.New(tensor.F32, w.Len(), rows, inside)
	}
	info := out.Info
	out.Info = w.info
	err = w.Vec.Step(action, seeds, out)
	out.Info = info
	if err != nil {
		return err
	}
	if !info.IsZero() {
		w.inform(info.F32(), out.Reward)
	}
	for n := range w.last {
		w.relate(n, out)
	}
	for i, r := range out.Reward.F32() {
		r *= w.coef
		if w.clip != 0 {
			r = min(max(r, -w.clip), w.clip)
		}
		out.Reward.F32()[i] = r
	}
	return nil
}

// inform writes the rows of info: the figures and then the reward of the wrapped Vec.
func (w *RewardScale) inform(info []float32, reward tensor.Tensor) {
	inside, repeats := len(w.spec.Info)-1, w.spec.Repeats()
	for i := range len(info) / (inside + 1) {
		row := info[i*(inside+1) : (i+1)*(inside+1)]
		copy(row, w.info.F32()[i*inside:(i+1)*inside])
		if row[inside] = 0; i%repeats == 0 {
			row[inside] = reward.F32()[i/repeats]
		}
	}
}

// relate subtracts the previous reward from each reward of environment n. The first reward of an
// episode stays unchanged. Rewards after the end of an episode stay 0.
func (w *RewardScale) relate(n int, out *Step) {
	steps, ended := out.Took(n)
	row := out.Reward.F32()[n*out.Reward.Dim(1):][:steps]
	for k, r := range row {
		row[k], w.last[n] = r-w.last[n], r
	}
	if ended {
		w.last[n] = 0
	}
}
