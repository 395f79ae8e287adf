package env

import (
	"fmt"
	"slices"
	"strings"
)

// A Task describes the task of a user's own model (Config.ModelPath): observations, actions,
// rewards, and how an episode starts and ends. All names refer to parts of the model.
type Task struct {
	// FrameSkip is the number of simulation steps in one step of the environment, all with the same
	// action. Default 1.
	FrameSkip int `yaml:"frame_skip,omitempty"`
	// MaxSteps is the task's usual time limit, in steps. 0, the default, means no limit.
	MaxSteps int `yaml:"max_steps,omitempty"`
	// Observations are the observed quantities. The observation "state" concatenates them. There must be at least one.
	Observations []Quantity `yaml:"observations,omitempty"`
	// Actuators are the actuators that an action sets, one per number of the action, in this order.
	// Their control ranges are the bounds of the action. Default: all actuators of the model.
	Actuators []string `yaml:"actuators,omitempty"`
	// Delta makes actions relative. An action within ±1 moves the set point of an actuator by up to
	// Delta, in the unit of the actuator's joint. The set point starts at the joint's initial
	// position. Delta is for position actuators. With 0, the default, an action is the set point
	// itself.
	Delta float64 `yaml:"delta,omitempty"`
	// Lead is the maximum distance of the set point from its joint's position, if Delta is used.
	// With 0, the default, only the actuator's control range limits the set point.
	Lead float64 `yaml:"lead,omitempty"`
	// Rewards add up to the reward of a step. There must be at least one.
	Rewards []Reward `yaml:"rewards,omitempty"`
	// Terminations end the episode when a number of one of these quantities leaves its bounds.
	Terminations []Bounds `yaml:"terminations,omitempty"`
	// Success ends the episode, with the figure "success", when all numbers of these quantities are
	// within their bounds. Default: no success.
	Success []Bounds `yaml:"success,omitempty"`
	// SuccessSteps is the number of successive steps in which Success must hold. Default 1.
	SuccessSteps int `yaml:"success_steps,omitempty"`
	// ResetNoise is added to the model's initial state at the start of an episode.
	ResetNoise []Noise `yaml:"reset_noise,omitempty"`
}

// A Quantity is a list of numbers of the simulation. Set exactly one of its first six keys. The
// name "*" means all parts of the kind, in the model's order. Values are taken after the step. Only
// the values of force and acceleration sensors are older: from the last state for which the
// simulation computed them.
type Quantity struct {
	// position of a joint: an angle [rad] or a distance [m]; a free joint has 7 numbers, a ball joint 4
	Joint    string `yaml:"joint,omitempty"`
	Velocity string `yaml:"velocity,omitempty"` // velocity of a joint
	Sensor   string `yaml:"sensor,omitempty"`   // output of a sensor
	Body     string `yaml:"body,omitempty"`     // position of a body's frame, x, y, z [m]
	Site     string `yaml:"site,omitempty"`     // position of a site, x, y, z [m]
	Actuator string `yaml:"actuator,omitempty"` // action of an actuator, not clipped; only in rewards

	// RelativeTo is a body or a site. Its position is subtracted from the position of the
	// quantity's body or site. If a body and a site have this name, the part of the quantity's own
	// kind is used.
	RelativeTo string `yaml:"relative_to,omitempty"`
	// Elements selects some of the numbers, counted from 0. Default: all.
	Elements []int `yaml:"elements,omitempty"`
	// Scale multiplies the numbers; 0 means 1.
	Scale float64 `yaml:"scale,omitempty"`
	// Apply lists functions, which are applied in this order. cos, sin, wrap (an angle to [-π, π)),
	// abs, square and tanh act on each number. norm (Euclidean length) and sum reduce all numbers
	// to one.
	Apply []string `yaml:"apply,omitempty"`
	// Clip clips each number to ±Clip, after Apply. 0, the default, means no clipping.
	Clip float64 `yaml:"clip,omitempty"`
}

// A Reward is Weight times the sum of the quantity's numbers, or Constant.
type Reward struct {
	Quantity `yaml:",inline"`
	// Constant is a fixed reward, in place of a quantity.
	Constant float64 `yaml:"constant,omitempty"`
	// Weight multiplies the sum of the quantity's numbers. With a quantity it must not be 0.
	Weight float64 `yaml:"weight,omitempty"`
	// If Before is true, the value before the step counts.
	Before bool `yaml:"before,omitempty"`
	// If Rate is true, the change of the value during the step, divided by the step's duration, counts instead of the
	// value.
	Rate bool `yaml:"rate,omitempty"`
	// When selects the steps that give this reward. "always" (default) selects all steps, "alive"
	// the steps without a termination, and "success" only successful steps.
	When string `yaml:"when,omitempty"`
}

// Bounds are the bounds of a quantity's numbers.
type Bounds struct {
	Quantity `yaml:",inline"`
	Low      *float64 `yaml:"low,omitempty"`  // default: none
	High     *float64 `yaml:"high,omitempty"` // default: none
}

// Noise is drawn independently for every number of a joint's position or velocity: uniformly from
// [Low, High), or from a normal distribution with standard deviation Std.
type Noise struct {
	Joint    string  `yaml:"joint,omitempty"` // "*" means all joints
	Velocity string  `yaml:"velocity,omitempty"`
	Elements []int   `yaml:"elements,omitempty"` // elements of a joint with several numbers; default: all
	Low      float64 `yaml:"low,omitempty"`
	High     float64 `yaml:"high,omitempty"`
	Std      float64 `yaml:"std,omitempty"`
}

// functions are the functions of Quantity.Apply.
var functions = []string{"cos", "sin", "wrap", "abs", "square", "tanh", "norm", "sum"}

// Source returns the kind of q ("joint", "velocity", "sensor", "body", "site", "actuator") and the
// name in the model. Both are "" unless exactly one of these keys is set.
func (q Quantity) Source() (kind, name string) {
	given := 0
	for _, k := range []struct{ kind, name string }{
		{"joint", q.Joint}, {"velocity", q.Velocity}, {"sensor", q.Sensor}, {"body", q.Body}, {"site", q.Site},
		{"actuator", q.Actuator},
	} {
		if k.name != "" {
			kind, name = k.kind, k.name
			given++
		}
	}
	if given != 1 {
		return "", ""
	}
	return kind, name
}

// check validates what it can check without the model. It calls the given function for each rule; see Config.Check.
// Keys are relative to the section task.
func (t *Task) check(want func(ok bool, key string, value any, want string)) {
	number := func(x float64, key string) {
		want(finite(float32(x)), key, x, "a number that float32 can hold")
	}
	want(t.FrameSkip >= 0 && t.FrameSkip <= 10000, "frame_skip", t.FrameSkip, "a number from 1 to 10000")
	want(t.MaxSteps >= 0 && t.MaxSteps < 1<<31, "max_steps", t.MaxSteps, "a number of steps, or 0 for no limit")
	number(t.Delta, "delta")
	number(t.Lead, "lead")
	want(t.Delta >= 0, "delta", t.Delta, "a positive number, or 0")
	want(t.Lead >= 0 && (t.Lead == 0 || t.Delta > 0), "lead", t.Lead, "a positive number, with delta, or 0")
	want(t.SuccessSteps >= 0 && (t.SuccessSteps == 0 || len(t.Success) > 0), "success_steps", t.SuccessSteps,
		"a positive number, with success")
	want(len(t.Observations) > 0, "observations", t.Observations, "at least one quantity")
	want(t.Actuators == nil || len(t.Actuators) > 0, "actuators", t.Actuators, "at least one, or no such key for all")
	want(len(t.Rewards) > 0, "rewards", t.Rewards, "at least one term")
	for i, q := range t.Observations {
		q.check(fmt.Sprintf("observations.%d", i), false, want)
	}
	for i, r := range t.Rewards {
		key := fmt.Sprintf("rewards.%d", i)
		number(r.Constant, key+".constant")
		number(r.Weight, key+".weight")
		if kind, _ := r.Source(); kind != "" || r.Constant == 0 {
			r.check(key, true, want)
			want(r.Weight != 0 && r.Constant == 0, key+".weight", r.Weight, "a number other than 0, and no constant")
			want(!(r.Before || r.Rate) || kind != "actuator", key+".actuator", r.Actuator,
				"no before and no rate: an action is of the step")
		}
		want(!r.Before || !r.Rate, key+".before", r.Before, "before or rate, not both")
		want(slices.Contains([]string{"", "always", "alive", "success"}, r.When), key+".when", r.When,
			"always, alive or success")
		want(r.When != "success" || len(t.Success) > 0, key+".when", r.When, "always or alive: the task has no success")
	}
	bounds := func(name string, list []Bounds) {
		for i, b := range list {
			key := fmt.Sprintf("%s.%d", name, i)
			b.check(key, false, want)
			want(b.Low != nil || b.High != nil, key+".low", nil, "a bound, low or high or both")
			if b.Low != nil && b.High != nil {
				want(*b.Low <= *b.High, key+".low", *b.Low, fmt.Sprintf("no more than high, %g", *b.High))
			}
		}
	}
	bounds("terminations", t.Terminations)
	bounds("success", t.Success)
	for i, n := range t.ResetNoise {
		key := fmt.Sprintf("reset_noise.%d", i)
		number(n.Low, key+".low")
		number(n.High, key+".high")
		number(n.Std, key+".std")
		want(n.Elements == nil || len(n.Elements) > 0, key+".elements", n.Elements,
			"at least one, or no such key for all")
		want((n.Joint == "") != (n.Velocity == ""), key+".joint", n.Joint, "a joint, or a velocity")
		uniform := n.Low != 0 || n.High != 0
		want(n.Low <= n.High, key+".low", n.Low, "no more than high")
		want(n.Std >= 0 && uniform != (n.Std != 0), key+".std", n.Std, "a positive number, or low and high")
	}
}

func (q Quantity) check(key string, actions bool, want func(ok bool, key string, value any, want string)) {
	kind, name := q.Source()
	kinds := "joint, velocity, sensor, body, site"
	if actions {
		kinds += ", actuator"
	}
	want(name != "" && (actions || kind != "actuator"), key, nil, "exactly one of "+kinds)
	want(q.RelativeTo == "" || (kind == "body" || kind == "site") && name != "*", key+".relative_to", q.RelativeTo,
		"that of one body or one site only")
	for i, f := range q.Apply {
		want(slices.Contains(functions, f), fmt.Sprintf("%s.apply.%d", key, i), f,
			"one of "+strings.Join(functions, ", "))
	}
	want(q.Elements == nil || len(q.Elements) > 0, key+".elements", q.Elements, "at least one, or no such key for all")
	want(finite(float32(q.Scale)), key+".scale", q.Scale, "a number that float32 can hold")
	want(q.Clip >= 0, key+".clip", q.Clip, "a positive number, or 0 for none")
}
