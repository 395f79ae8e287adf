package external

import (
	"errors"
	"fmt"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// check returns an error if the reply block contains a value that the protocol forbids. The argument final says whether
// the RESULT frame has the flag FINAL.
func (c *conversation) check(final bool) error {
	ended := byte(0)
	for n, steps := range c.mask {
		term, trunc := c.terminated[n], c.truncated[n]
		switch {
		case steps == 0:
			continue
		case term > 1 || trunc > 1:
			return fmt.Errorf("environment %d: terminated %d, truncated %d, expected 0 or 1", n, term, trunc)
		case c.asked == reset && term|trunc != 0:
			return fmt.Errorf("environment %d: its episode is over after RESET", n)
		case c.autoReset && term|trunc != 0 && !final:
			return fmt.Errorf("environment %d: its episode is over, and RESULT has no flag FINAL", n)
		case !finite(c.reward[n]):
			return c.notFinite(n)
		}
		if err := c.checkTaken(n); err != nil {
			return err
		}
		ended |= term | trunc
	}
	if !c.info.IsZero() && !allFinite(c.info.F32()) {
		for n, steps := range c.mask {
			if i, _ := badNumber(c.info, n); i >= 0 && steps != 0 {
				return c.notFinite(n)
			}
		}
	}
	if err := c.checkObs(c.obs, "", false); err != nil || ended == 0 || !c.autoReset {
		return err
	}
	return c.checkObs(c.final, "final ", true)
}

// checkTaken validates the action that a person took in environment n in place of the policy. It returns nil if no
// person acted.
func (c *conversation) checkTaken(n int) error {
	if c.intervened == nil || c.asked != step || c.intervened[n] == 0 {
		return nil
	}
	if c.intervened[n] > 1 {
		return fmt.Errorf("environment %d: intervened %d, expected 0 or 1", n, c.intervened[n])
	}
	space, row := &c.greeting.spec.Action, c.taken.Slice(n, n+1)
	if space.Kind == env.Box {
		if i, _ := badNumber(row, 0); i >= 0 {
			return fmt.Errorf("environment %d: taken[%d] is %v, expected a finite number", n, i, row.F32()[i])
		}
		return nil
	}
	if k := space.Outside(row.I32()); k >= 0 {
		return fmt.Errorf("environment %d: taken[%d] is %d, expected 0 to %d", n, k, row.I32()[k], space.Nvec[k]-1)
	}
	return nil
}

// checkObs returns an error if an observation of an environment in c.mask is invalid. If ended is true, it checks only
// the environments whose episode ended.
func (c *conversation) checkObs(obs []tensor.Tensor, what string, ended bool) error {
	for k, f := range c.greeting.spec.Obs {
		t, mask := obs[k], f.Name == env.ActionMask
		if f.DType == tensor.U8 && !mask {
			continue // every value is valid
		}
		claim(t.Bytes())
		if f.DType == tensor.F32 && allFinite(t.F32()) {
			continue
		}
		for n, steps := range c.mask {
			if steps == 0 || ended && c.terminated[n]|c.truncated[n] == 0 {
				continue
			}
			if mask {
				if err := c.checkMask(t.U8()[n*f.Dim():(n+1)*f.Dim()], n, what, ended); err != nil {
					return err
				}
				continue
			}
			if f.DType == tensor.F32 {
				if i, _ := badNumber(t, n); i >= 0 {
					return c.notFinite(n)
				}
				continue
			}
			for i, x := range t.I32()[n*len(f.Nvec) : (n+1)*len(f.Nvec)] {
				if x < 0 || int(x) >= f.Nvec[i] {
					return fmt.Errorf("environment %d: %sobservation %s[%d] is %d, expected 0 to %d", n, what, f.Name,
						i, x, f.Nvec[i]-1)
				}
			}
		}
	}
	return nil
}

// checkMask returns an error if the action mask of environment n is invalid. While the episode
// runs, each choice must have an allowed option.
func (c *conversation) checkMask(mask []byte, n int, what string, over bool) error {
	for i, x := range mask {
		if x > 1 {
			return fmt.Errorf("environment %d: %sobservation %s[%d] is %d, expected 0 or 1", n, what, env.ActionMask, i,
				x)
		}
	}
	if over || c.asked == load || !c.autoReset && c.terminated[n]|c.truncated[n] != 0 {
		return nil
	}
	if k := c.greeting.spec.Action.Blocked(mask); k >= 0 {
		return fmt.Errorf("environment %d: observation %s allows no option of choice %d, expected at least one", n,
			env.ActionMask, k)
	}
	return nil
}

// notFinite returns an error that lists the numbers of environment n that are NaN or infinite. It also says how to
// repeat the step: the seed of the episode, the number of the step and the action.
func (c *conversation) notFinite(n int) error {
	var bad []string
	if !finite(c.reward[n]) {
		bad = append(bad, fmt.Sprintf("reward %v", c.reward[n]))
	}
	if !c.info.IsZero() {
		for i, name := range c.greeting.Info {
			if x := c.info.F32()[n*len(c.greeting.Info)+i]; !finite(x) {
				bad = append(bad, fmt.Sprintf("info %s is %v", name, x))
			}
		}
	}
	observed := func(obs []tensor.Tensor, what string) {
		for k, f := range c.greeting.spec.Obs {
			if f.DType != tensor.F32 {
				continue
			}
			claim(obs[k].Bytes())
			if i, more := badNumber(obs[k], n); i >= 0 {
				bad = append(bad, fmt.Sprintf("%sobservation %s[%d] is %v", what, f.Name, i, obs[k].F32()[n*f.Dim()+i]))
				if more > 0 {
					bad[len(bad)-1] += fmt.Sprintf(" and %d more", more)
				}
			}
		}
	}
	last, seed := c.asked == step, c.began[n]
	if last && c.autoReset && c.terminated[n]|c.truncated[n] != 0 {
		observed(c.final, "final ")
	} else {
		observed(c.obs, "")
	}
	if len(bad) == 0 { // only the next episode is bad
		observed(c.obs, "")
		last = false
	}
	if !last {
		seed = c.seed[n]
	}
	text := fmt.Sprintf("environment %d: %s", n, strings.Join(bad, ", "))
	switch {
	case c.asked == load || last && c.steps[n] < 0:
	case last:
		text += fmt.Sprintf("; seed %d, step %d, action %s", seed, c.steps[n]+1, c.actionOf(n))
	default:
		text += fmt.Sprintf("; reset with seed %d", seed)
	}
	return errors.New(text)
}

// actionOf returns the last action of environment n, with at most 8 numbers.
func (c *conversation) actionOf(n int) string {
	t := c.blocks.request.Bind(c.memory.bytes).Must("action")
	row := t.Len() / c.n
	end, more := n*row+min(row, 8), ""
	if row > 8 {
		more = " ..."
	}
	if t.DType() == tensor.F32 {
		return strings.TrimSuffix(fmt.Sprint(t.F32()[n*row:end]), "]") + more + "]"
	}
	return strings.TrimSuffix(fmt.Sprint(t.I32()[n*row:end]), "]") + more + "]"
}

// follow counts the steps of each episode, for the messages of notFinite. It is called after each valid answer.
func (c *conversation) follow() {
	for n, took := range c.mask {
		switch {
		case c.asked == load:
			c.steps[n] = -1
		case took == 0:
		case c.asked == reset, c.autoReset && c.terminated[n]|c.truncated[n] != 0:
			c.began[n], c.steps[n] = c.seed[n], 0
		case c.steps[n] >= 0:
			c.steps[n]++
		}
	}
}

// badNumber searches row n of t for numbers that are NaN or infinite. It returns the index of the first, or -1 if there
// is none, and the number of others.
func badNumber(t tensor.Tensor, n int) (first, more int) {
	rows := t.F32()
	width := len(rows) / t.Dim(0)
	first = -1
	for i, x := range rows[n*width : (n+1)*width] {
		switch {
		case finite(x):
		case first < 0:
			first = i
		default:
			more++
		}
	}
	return first, more
}

// allFinite reports whether no number is NaN or infinite. It sums x - x, which is 0 for finite
// numbers and NaN for all others. This is faster than a branch for each number.
func allFinite(x []float32) bool {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a += x[0] - x[0]
		b += x[1] - x[1]
		c += x[2] - x[2]
		d += x[3] - x[3]
	}
	for _, v := range x {
		a += v - v
	}
	return a+b+c+d == 0
}

func finite(x float32) bool { return x-x == 0 }
