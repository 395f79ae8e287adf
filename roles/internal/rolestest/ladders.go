package rolestest

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// ladders are environments in which an action chooses a rung on each of several ladders. A mask shows the allowed
// rungs, which change periodically. The rest of the observation is constant. The reward is the fraction of ladders on
// which the action chose the highest allowed rung. Choosing a rung that is not allowed is an error.
type ladders struct {
	rungs   []int
	period  int   // number of steps between changes of the mask
	steps   []int // number of steps since the mask changed, by environment
	allowed [][]uint8
	rand    []philox.Stream
}

func (l *ladders) Spec() env.Spec {
	options := 0
	for _, k := range l.rungs {
		options += k
	}
	mask := env.Space{Kind: env.Box, DType: tensor.U8, Shape: []int{options}, Low: make([]float32, options),
		High: make([]float32, options)}
	for i := range mask.High {
		mask.High[i] = 1
	}
	action := env.Space{Kind: env.MultiDiscrete, DType: tensor.I32, Shape: []int{len(l.rungs)}, Nvec: l.rungs}
	if len(l.rungs) == 1 {
		action.Kind = env.Discrete
	}
	one := env.Space{Kind: env.Box, DType: tensor.F32, Shape: []int{1}, Low: []float32{1}, High: []float32{1}}
	return env.Spec{Name: "Ladders-v0", Obs: []env.Field{{Name: env.ActionMask, Space: mask},
		{Name: "state", Space: one}}, Action: action, MaxSteps: 8}
}

func (l *ladders) Len() int { return len(l.allowed) }

func (l *ladders) Reset(n int, seed uint64) error {
	l.rand[n] = philox.New(seed, philox.Reset, 0, 0)
	l.draw(n)
	return nil
}

func (l *ladders) draw(n int) {
	row := l.allowed[n][:0]
	for _, k := range l.rungs {
		for range k {
			row = append(row, uint8(l.rand[n].IntN(2)))
		}
		row[len(row)-k+l.rand[n].IntN(k)] = 1
	}
	l.allowed[n], l.steps[n] = row, 0
}

func (l *ladders) Step(action tensor.Tensor, turn []env.Turn, reward []float32, terminated []byte, _ []float32) error {
	for n, allowed := range l.allowed {
		if turn[n] == env.Idle {
			continue
		}
		reward[n], terminated[n] = 0, 0
		for i, k := range l.rungs {
			chosen, highest := int(action.I32()[n*len(l.rungs)+i]), k-1
			if allowed[chosen] == 0 {
				return fmt.Errorf("environment %d: rung %d is not allowed", n, chosen)
			}
			for allowed[highest] == 0 {
				highest--
			}
			if chosen == highest {
				reward[n] += 1 / float32(len(l.rungs))
			}
			allowed = allowed[k:]
		}
		if l.steps[n]++; l.steps[n] == l.period {
			l.draw(n)
		}
		if turn[n] == env.Last {
			clear(l.allowed[n]) // no action is allowed
		}
	}
	return nil
}

func (l *ladders) Observe(mask []bool, obs tensor.Dict) {
	for n, allowed := range l.allowed {
		if mask == nil || mask[n] {
			obs.Must("state").F32()[n] = 1
			copy(obs.Must(env.ActionMask).U8()[n*len(allowed):], allowed)
		}
	}
}

func (l *ladders) Close() error { return nil }

// Ladders returns a registry with the environment Ladders-v0. Its mask changes every period steps. Ladder i has
// rungs[i] rungs.
func Ladders(period int, rungs ...int) *env.Registry {
	reg := env.NewRegistry()
	reg.Add("Ladders-v0", func(cfg env.Config, n int) (env.Vec, error) {
		options := 0
		for _, k := range rungs {
			options += k
		}
		l := &ladders{rungs: rungs, period: period, steps: make([]int, n), allowed: make([][]uint8, n),
			rand: make([]philox.Stream, n)}
		for i := range l.allowed {
			l.allowed[i] = make([]uint8, options)
		}
		return env.NewEpisodic(l, cfg), nil
	})
	return reg
}
