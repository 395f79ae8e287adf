package external

import (
	"errors"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/tensor"
)

// Act fills action with the actions of the simulators' expert; see env.Expert. If a simulator fails, its environments
// get an arbitrary valid action, and the next step aborts their episodes.
func (v *Vec) Act(action tensor.Tensor) error {
	space := v.spec.Action
	if !v.greeting.Expert {
		return fmt.Errorf("%s has no expert (%w)", v.spec.Name, errors.ErrUnsupported)
	}
	if action.DType() != space.DType || action.Dim(0) != v.n || action.Len() != v.n*space.Dim() {
		return fmt.Errorf("%s: expert's action: %v, expected %v[%d 1 %d]", v.spec.Name, action, space.DType, v.n,
			space.Dim())
	}
	if err := v.start(); err != nil {
		return err
	}
	row := len(action.Bytes()) / v.n
	for _, c := range v.children {
		rows := action.Slice(c.lo, c.hi)
		if c.conversation != nil {
			got, err := c.call(expert, nil, (c.hi-c.lo)*row, v.by())
			if err == nil {
				copy(rows.Bytes(), got)
				err = v.checkExpert(c, rows)
			}
			if err == nil {
				continue
			}
			c.lost = fmt.Errorf("EXPERT: %w", err)
			fmt.Fprintf(v.hub.log, "%s\n", v.explain(c, c.lost))
			c.close(true)
			c.conversation = nil
		}
		rows.Zero()
		clip(&v.spec.Action, rows)
	}
	return nil
}

// checkExpert checks the expert's actions of child c. Where no episode runs, it replaces them by zeros.
func (v *Vec) checkExpert(c *child, rows tensor.Tensor) error {
	for i := range c.hi - c.lo {
		row := rows.Slice(i, i+1)
		if v.over[c.lo+i] != 0 {
			row.Zero()
		} else if err := c.checkAction(row, i); err != nil {
			return err
		}
	}
	clip(&v.spec.Action, rows)
	return nil
}

// checkAction validates the action x of environment i. Numbers must be finite. Choices must exist, and the mask of the
// environment must allow them.
func (c *conversation) checkAction(x tensor.Tensor, i int) error {
	spec := &c.greeting.spec
	if spec.Action.Kind == env.Box {
		for k, a := range x.F32() {
			if a-a != 0 {
				return fmt.Errorf("number %d of the action of environment %d is %v, expected a finite one", k, i, a)
			}
		}
		return nil
	}
	if k := spec.Action.Outside(x.I32()); k >= 0 {
		return fmt.Errorf("choice %d of environment %d is %d, expected 0 to %d", k, i, x.I32()[k],
			spec.Action.Nvec[k]-1)
	}
	for o, f := range spec.Obs {
		if f.Name != env.ActionMask {
			continue
		}
		mask := c.obs[o].Slice(i, i+1).U8()
		for k, a := range x.I32() {
			if mask[a] == 0 {
				return fmt.Errorf("choice %d of environment %d is %d, which its action_mask forbids", k, i, a)
			}
			mask = mask[spec.Action.Nvec[k]:]
		}
	}
	return nil
}

// clip clips actions of a Box to their bounds, and reports whether a number was beyond them.
func clip(space *env.Space, rows tensor.Tensor) (clipped bool) {
	if space.Kind == env.Box {
		x := rows.F32()
		for i, was := range x {
			k := i % len(space.Low)
			x[i] = min(max(was, space.Low[k]), space.High[k])
			clipped = clipped || x[i] != was
		}
	}
	return clipped
}
