package emulate

import (
	"fmt"
	"math"
	"time"

	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/spmd/local"
)

// A Machine is what a job runs on.
type Machine struct {
	PerNode int        // ranks of a node
	Between local.Link // a node's connection to the network; see local.Network
}

// A Cost is the duration of a call: Call, and Row for each row of its batch.
type Cost struct{ Call, Row time.Duration }

// Of returns the duration of a call with this number of rows.
func (c Cost) Of(rows int) time.Duration { return c.Call + time.Duration(rows)*c.Row }

// A Job is what the ranks do. Every rank simulates its share of the environments, chooses their actions, and trains on
// their data, unless keys of the setting place the components.
type Job struct {
	Steps       int // time steps of an iteration
	Minibatches int // optimiser steps of an iteration
	Params      int // parameters of the policy
	// Shrink makes the policy smaller without a change of what the network sees: there are Params/Shrink parameters,
	// and each byte takes Shrink times as long. At least 1.
	Shrink int

	Step, Infer Cost // a step of a rank's environments, and the choice of their actions
	Update      Cost // forward and backward pass of a rank's share of a minibatch; its rows are time steps
	// Skew is the standard deviation of the logarithm of a factor on each wait for environments. The factor's mean is
	// 1. 0: every step lasts as long.
	Skew float64
}

// A Setting is one run.
type Setting struct {
	Machine
	Job
	Ranks      int
	Envs       int // environments of all ranks
	Iterations int // that count
	Warmup     int // iterations before them
	// Stretch is the factor on all waits and links; 0: chosen so that real work stays below half.
	Stretch float64
	Seed    uint64
	Record  string   // folder of a run that records its times; "": it records nothing
	Keys    []string // overrides of the configuration
	// Drift changes the costs of the job before an iteration, by the number of the iteration. nil: they stay.
	Drift func(iteration int, j *Job)
	// Scheduler decides when members move, and where to. nil: they stay. Its times are stretched ones.
	Scheduler session.Scheduler
}

// rows returns the environments of one rank.
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

// Computing returns how long one rank waits in an iteration in place of computing, without skew: the time of an
// iteration if messages and all else took no time.
func (s *Setting) Computing() time.Duration { return s.rollout() + s.updates() }

// rollout returns the mean part of Computing in which rollouts are made. The values of the last observations are one
// more inference.
func (s *Setting) rollout() time.Duration {
	return time.Duration(s.Steps)*(s.Step.Of(s.rows())+s.Infer.Of(s.rows())) + s.Infer.Of(s.rows())
}

// updates returns the part of Computing in which actors train.
func (s *Setting) updates() time.Duration {
	return time.Duration(s.Minibatches) * s.Update.Of(s.batch())
}

// network returns the links with all times stretched.
func (s *Setting) network() local.Network {
	b := s.Between
	b.Latency = time.Duration(float64(b.Latency) * s.Stretch)
	b.BytesPerSecond /= s.Stretch * float64(s.Shrink)
	return local.Network{RanksPerNode: s.PerNode, Between: b}
}

// guess returns a first stretch: 40 µs of real work for each time step of a rank, and 100 times that for the rest of
// its iteration, on these cores.
func (s *Setting) guess(cores int) float64 {
	const step = 40e-6
	work := float64(s.Ranks) * step * float64(s.Steps+100) / float64(cores)
	return math.Max(least, math.Ceil(work/(aim*s.Computing().Seconds())))
}

// Real work may be at most half of what the cores can do. A guess aims lower. The least stretch makes the lateness of
// waits and messages small beside them: some tens of microseconds on quiet cores.
const (
	most  = 0.5
	aim   = 0.3
	least = 25
)
