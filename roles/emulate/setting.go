package emulate

import (
	"fmt"
	"math"
	"time"

	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd/local"
)

// A Topology describes the emulated nodes and their network.
type Topology struct {
	PerNode int        // number of ranks on a node
	Between local.Link // a node's connection to the network; see local.Network
}

// A CallTime is the duration of a call: Call, plus Row for each row of its batch.
type CallTime struct{ Call, Row time.Duration }

// Of returns the duration of a call with the given number of rows.
func (c CallTime) Of(rows int) time.Duration { return c.Call + time.Duration(rows)*c.Row }

// A Load is the work of the ranks. Every rank simulates its share of the environments, chooses their actions, and
// trains on their data, unless Setting.Keys place the components.
type Load struct {
	Steps       int // time steps of an iteration
	Minibatches int // optimiser steps of an iteration
	Params      int // parameters of the policy
	// Shrink divides the number of parameters, and multiplies the time of each byte, so that the network takes the same
	// time. It is at least 1.
	Shrink int

	Step, Infer CallTime // a step of a rank's environments, and the inference of their actions
	Update      CallTime // forward and backward pass of a rank's share of a minibatch; the rows are time steps
	// Skew is the standard deviation of the logarithm of a random factor on each environment step. The factor's mean is
	// 1. If Skew is 0, all steps take the same time.
	Skew float64
}

// A Setting describes an emulated run.
type Setting struct {
	Topology
	Load
	Ranks      int
	Envs       int // environments of all ranks
	Iterations int // number of measured iterations
	Warmup     int // iterations before the measured iterations
	// Stretch is the factor on all waits and links. If it is 0, Run chooses it so that real work takes less than half
	// of the cores' time.
	Stretch float64
	Seed    uint64
	Record  string   // folder in which the run records its times; "" to record nothing
	Keys    []string // overrides of the configuration
	// Drift changes the costs of the job before each iteration. If it is nil, the costs stay the same.
	Drift func(iteration int, j *Load)
	// Scheduler decides when and where members move. If it is nil, members do not move. The times that it gets are
	// stretched.
	Scheduler session.Scheduler
}

// rows returns the number of environments of one rank.
func (s *Setting) rows() int { return s.Envs / s.Ranks }

// batch returns a rank's share of a minibatch, in time steps.
func (s *Setting) batch() int { return s.rows() * s.Steps / s.Minibatches }

func (s *Setting) check() error {
	want := func(ok bool, what string, value any) error {
		if ok {
			return nil
		}
		return fmt.Errorf("emulate: %s, got %v", what, value)
	}
	for _, err := range []error{
		want(s.Ranks > 0 && s.PerNode > 0 && s.Steps > 0 && s.Minibatches > 0 && s.Params > 0 && s.Shrink > 0 &&
			s.Iterations > 0 && s.Warmup >= 0, "expected positive counts", fmt.Sprintf("%+v", *s)),
		want(s.Ranks > 0 && s.Envs > 0 && s.Envs%max(1, s.Ranks) == 0, "environments: expected a multiple of the ranks",
			s.Envs),
		want(s.Minibatches > 0 && s.rowsDivide(), "minibatches: expected a divisor of a rank's time steps",
			s.Minibatches),
		want(s.Stretch == 0 || s.Stretch >= 1, "stretch: expected 0 or at least 1", s.Stretch),
		want(s.Skew >= 0, "skew: expected at least 0", s.Skew),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Setting) rowsDivide() bool { return s.Envs/max(1, s.Ranks)*s.Steps%s.Minibatches == 0 }

// Computing returns the time that one rank waits in place of computing in an iteration, without skew. It is the time of
// an iteration if communication takes no time.
func (s *Setting) Computing() time.Duration { return s.rollout() + s.updates() }

// rollout returns the part of Computing for rollouts. The values of the last observations need one more inference.
func (s *Setting) rollout() time.Duration {
	return time.Duration(s.Steps)*(s.Step.Of(s.rows())+s.Infer.Of(s.rows())) + s.Infer.Of(s.rows())
}

// updates returns the part of Computing for training.
func (s *Setting) updates() time.Duration {
	return time.Duration(s.Minibatches) * s.Update.Of(s.batch())
}

// network returns the emulated network, with all times stretched.
func (s *Setting) network() local.Network {
	b := s.Between
	b.Latency = time.Duration(float64(b.Latency) * s.Stretch)
	b.BytesPerSecond /= s.Stretch * float64(s.Shrink)
	return local.Network{RanksPerNode: s.PerNode, Between: b}
}

// guessStretch returns a first stretch. It assumes 40 µs of real work for each time step of a rank, and 4 ms for the
// rest of the rank's iteration.
func (s *Setting) guessStretch(cores int) float64 {
	const step = 40e-6
	work := float64(s.Ranks) * step * float64(s.Steps+100) / float64(cores)
	return math.Max(least, math.Ceil(work/(aim*s.Computing().Seconds())))
}

// Limits of real work and of the stretch.
const (
	most  = 0.5 // maximum share of real work in the cores' time
	aim   = 0.3 // share of real work at which a guess aims
	least = 25  // smallest stretch; it makes the usual lateness, tens of microseconds, small compared with the waits
)
