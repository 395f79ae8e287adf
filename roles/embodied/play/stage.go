package play

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A Stage has environments that step together, and the statistics of their episodes.
type Stage struct {
	Vec       env.Vec
	Now       *env.Step     // the result of the last step or reset
	Action    tensor.Dict   // the actions of the next step
	Seeder    *env.Seeder   // makes the seeds of episodes
	Episodes  *env.Episodes // statistics of running episodes, and ended episodes
	AutoReset bool          // when an episode ends, a new one begins
	Running   bool          // episodes have begun
	At        int           // steps taken in the present epoch of an asynchronous run
	first     int           // the number of the first environment among all environments of the job
	camera    *Filming      // films evaluations; nil without films
	tape      *tape         // records episodes; nil without recordings
	report    func()        // reports progress after each step; nil if nothing is reported
	begun     int           // episodes that each environment has begun since CountEpisodes
	clock     clock
	simulated atomic.Int64 // see Simulated
}

// Simulated returns the nanoseconds that the environments have taken so far, for steps and for beginnings of episodes.
// Any goroutine may call it.
func (s *Stage) Simulated() int64 { return s.simulated.Load() }

// simulate adds the time since start to Simulated.
func (s *Stage) simulate(start int64) { s.simulated.Add(s.clock.now() - start) }

// A clock reads only the monotonic clock. time.Now also reads the wall clock, which takes twice as long.
type clock struct{ zero time.Time }

func newClock() clock { return clock{time.Now()} }

// now returns the nanoseconds since the clock was made.
func (c clock) now() int64 { return int64(time.Since(c.zero)) }

// NewStage makes the environments [lo, lo+n) of cfg. chunks is the number of actions in a step.
func NewStage(reg *env.Registry, cfg env.Config, use env.Use, lo, n, chunks int) (*Stage, error) {
	vec, err := reg.New(cfg, n)
	if err != nil {
		return nil, err
	}
	spec := vec.Spec()
	s := &Stage{Vec: vec, clock: newClock(), first: lo, AutoReset: cfg.AutoReset &&
		use == env.Train, Seeder: env.NewSeeder(cfg, use, lo, n)}
	s.Episodes = env.NewEpisodes(spec, lo, n, s.AutoReset)
	s.take(chunks)
	if cfg.VideoCfg.SaveVideo && use == env.Eval && lo == 0 {
		s.camera, err = newFilming(vec, cfg.VideoCfg)
		if errors.Is(err, errors.ErrUnsupported) && mayBeUnrenderable(cfg) {
			s.camera, err = nil, nil
		}
	}
	return s, err
}

// take allocates memory for the actions of a step, and for their results. chunks is the number of actions in a step.
// Call Begin afterwards.
func (s *Stage) take(chunks int) {
	n, spec := s.Vec.Len(), s.Vec.Spec()
	s.Now = spec.NewStep(n, chunks)
	s.Action.Set(algo.FieldAction, tensor.New(spec.Action.DType, n, chunks, spec.Action.Dim()))
}

// Label adds the expert's actions to the observations. Call Begin afterwards.
func (s *Stage) Label() {
	s.Vec = env.NewLabels(s.Vec)
	s.take(s.Now.Reward.Dim(1))
}

// Fit sets the number of actions in a step to the number that pol chooses at a time. It returns this number, and the
// number of log-probs.
func (s *Stage) Fit(pol policy.Policy) (chunks, logProbs int, err error) {
	// The mask was not observed yet, and allows no action. The policy would return an error.
	if mask, ok := s.Now.Obs.Get(env.ActionMask); ok {
		for i := range mask.U8() {
			mask.U8()[i] = 1
		}
	}
	act, err := NewEvalPlayer(pol, s.Vec.Len(), 0, 0).Act(s.Now.Obs)
	if err != nil {
		return 0, 0, err
	}
	chunks, logProbs = act.Action.Dim(1), act.LogProb.Dim(1)
	s.take(chunks)
	return chunks, logProbs, nil
}

// Begin starts new episodes. It does nothing if episodes are running and environments reset themselves.
func (s *Stage) Begin() error {
	if s.AutoReset && s.Running {
		return nil
	}
	start := s.clock.now()
	err := s.Vec.Reset(nil, s.Seeder.Next(), s.Now)
	if s.simulate(start); err != nil {
		return s.located(err)
	}
	s.begun++
	s.Seeder.Started(nil)
	s.Episodes.Started(nil)
	s.Now.Terminated.Zero()
	s.Now.Truncated.Zero()
	s.Now.Status.Zero()
	s.Running = true
	if s.tape != nil {
		s.tape.begin(s.Now.Obs)
	}
	if s.camera != nil {
		s.camera.begin(s.Now, s.Episodes)
	}
	return nil
}

// CountSteps reports the progress of the next n steps to p.
func (s *Stage) CountSteps(p algo.Progress, n int) {
	p.Report("rollout", 0, n)
	s.report = nil
	if p != nil {
		done := 0
		s.report = func() {
			done++
			p("rollout", done, n)
		}
	}
}

// CountEpisodes reports the number of ended episodes of an evaluation to p. perEnv is the number of episodes per
// environment.
func (s *Stage) CountEpisodes(p algo.Progress, perEnv int) {
	envs := s.Vec.Len()
	p.Report("evaluation", 0, perEnv*envs)
	s.begun, s.report = 0, nil
	if p != nil {
		s.report = func() { p("evaluation", (s.begun-1)*envs+s.ended(), perEnv*envs) }
	}
}

// Step takes one step of all environments.
func (s *Stage) Step() error {
	err := s.step()
	if err == nil && s.report != nil {
		s.report()
	}
	return err
}

func (s *Stage) step() error {
	var seeds []uint64 // seeds of the episodes that begin in this step
	if s.AutoReset {
		seeds = s.Seeder.Next()
	}
	start := s.clock.now()
	err := s.Vec.Step(s.Action, seeds, s.Now)
	if s.simulate(start); err != nil {
		return s.located(err)
	}
	if s.AutoReset {
		s.Seeder.Observe(s.Now)
	}
	if s.tape != nil {
		if err := s.tape.watch(s.Action.Must(algo.FieldAction), s.Now); err != nil {
			return err
		}
	}
	s.Episodes.Observe(s.Now)
	if s.camera != nil {
		s.camera.watch(s.Now, s.Episodes)
	}
	return nil
}

// located adds the numbers of the environments in the job to an error of Vec, which numbers its environments from 0.
func (s *Stage) located(err error) error {
	if s.first == 0 {
		return err
	}
	n := s.Vec.Len()
	return fmt.Errorf("environments %d-%d, called 0-%d in what follows: %w", s.first, s.first+n-1, n-1, err)
}

// Over reports whether the episodes of all environments have ended, and no new episodes have begun.
func (s *Stage) Over() bool { return s.ended() == s.Vec.Len() }

// ended returns the number of environments whose episodes have ended.
func (s *Stage) ended() (ended int) {
	term, trunc := s.Now.Terminated.U8(), s.Now.Truncated.U8()
	k := s.Now.Reward.Dim(1)
	for n := 0; n < len(term); n += k {
		var done byte
		for i := n; i < n+k; i++ {
			done |= term[i] | trunc[i]
		}
		if done != 0 {
			ended++
		}
	}
	return ended
}

// Save returns the state of the environments and of their episodes.
func (s *Stage) Save() (tensor.Dict, error) {
	d, err := env.Save(s.Vec)
	if err != nil {
		return d, err
	}
	seeds, err := s.Seeder.Save()
	if err != nil {
		return d, err
	}
	sums, err := s.Episodes.Save()
	if err != nil {
		return d, err
	}
	for _, more := range []tensor.Dict{seeds, sums} {
		for i := range more.Len() {
			d.Set(more.Entry(i))
		}
	}
	for i := range s.Now.Obs.Len() {
		name, t := s.Now.Obs.Entry(i)
		d.Set("observed."+name, t)
	}
	return d, nil
}

// Load restores a state that Save returned, so that the episodes continue. If d has only seeds, new episodes begin.
func (s *Stage) Load(d tensor.Dict) error {
	err := s.Seeder.Load(d)
	if _, ok := d.Get(RunningReturn); err != nil || !ok {
		return err
	}
	if err := env.Load(s.Vec, d); err != nil {
		return err
	}
	if err := s.Episodes.Load(d); err != nil {
		return err
	}
	for i := range s.Now.Obs.Len() {
		name, t := s.Now.Obs.Entry(i)
		from, ok := d.Get("observed." + name)
		if !ok || !from.SameShape(t) {
			return fmt.Errorf("saved observation %s: %v, expected %v", name, from, t)
		}
		t.CopyFrom(from)
	}
	s.Running = true
	return nil
}

// RunningReturn is the name of a tensor that the saved state of environments has if it has running episodes.
const RunningReturn = "episodes.return"
