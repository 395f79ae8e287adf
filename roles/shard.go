package roles

import (
	"context"
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// A shard is a run of environments that step together, with what training and metrics need to know
// of their episodes.
type shard struct {
	vec       env.Vec
	now       *env.Step   // what they returned last
	action    tensor.Dict // what they take next
	seeder    *env.Seeder
	episodes  *env.Episodes
	autoReset bool
	running   bool // episodes go on from earlier
	first     int  // the number of its first environment among all
	lanes     []*envLane
	at        int     // steps in the present rollout of an asynchronous run
	camera    *camera // films evaluations; nil: there is none
	// the rollout worker of its only lane is on this rank and plays it without channels, in one
	// goroutine
	local bool
}

// An envLane is a lane as its env worker sees it.
type envLane struct {
	lane
	obs    *spmd.Sender
	act    *spmd.Receiver
	layout *tensor.Layout
	row    int // its first row in the shard
}

// newShard makes the environments first, first+1, … first+n-1 of cfg, which take chunks of actions.
func newShard(reg *env.Registry, cfg env.Config, use env.Use, first, n, chunks int) (*shard, error) {
	vec, err := reg.New(cfg, n)
	if err != nil {
		return nil, err
	}
	spec := vec.Spec()
	s := &shard{vec: vec, first: first, autoReset: cfg.AutoReset &&
		use == env.Train, seeder: env.NewSeeder(cfg, use, first, n)}
	s.episodes = env.NewEpisodes(spec, first, n, s.autoReset)
	s.take(chunks)
	if cfg.VideoCfg.SaveVideo && use == env.Eval && first == 0 {
		s.camera, err = newCamera(vec, cfg.VideoCfg)
	}
	return s, err
}

// take makes room for chunks of actions and for what they lead to. Episodes are to begin after it.
func (s *shard) take(chunks int) {
	n, spec := s.vec.Len(), s.vec.Spec()
	s.now = spec.NewStep(n, chunks)
	s.action.Set("action", tensor.New(spec.Action.DType, n, chunks, spec.Action.Dim()))
}

// label has the environments show what their expert would do, too. Episodes are to begin after it.
func (s *shard) label() {
	s.vec = env.NewLabels(s.vec)
	s.take(s.now.Reward.Dim(1))
}

// fit takes chunks of as many actions as pol chooses at a time, and returns how many that are and
// how many log-probs come with them.
func (s *shard) fit(pol policy.Policy) (chunks, logProbs int, err error) {
	// nothing has been observed yet, and to allow nothing would be an error
	if mask, ok := s.now.Obs.Get(env.ActionMask); ok {
		for i := range mask.U8() {
			mask.U8()[i] = 1
		}
	}
	act, err := newPerformer(pol, s.vec.Len()).act(s.now.Obs)
	if err != nil {
		return 0, 0, err
	}
	chunks, logProbs = act.Action.Dim(1), act.LogProb.Dim(1)
	s.take(chunks)
	return chunks, logProbs, nil
}

// begin starts new episodes, unless those that run go on by themselves.
func (s *shard) begin() error {
	if s.autoReset && s.running {
		return nil
	}
	if err := s.vec.Reset(nil, s.seeder.Next(), s.now); err != nil {
		return s.located(err)
	}
	s.seeder.Started(nil)
	s.episodes.Started(nil)
	s.now.Terminated.Zero()
	s.now.Truncated.Zero()
	s.running = true
	if s.camera != nil {
		return s.camera.start()
	}
	return nil
}

// step takes one step of all environments.
func (s *shard) step() error {
	if !s.autoReset {
		if err := s.vec.Step(s.action, nil, s.now); err != nil {
			return s.located(err)
		}
		s.episodes.Observe(s.now)
		if s.camera != nil {
			return s.camera.step(s.now)
		}
		return nil
	}
	if err := s.vec.Step(s.action, s.seeder.Next(), s.now); err != nil {
		return s.located(err)
	}
	s.seeder.Observe(s.now)
	s.episodes.Observe(s.now)
	return nil
}

// located says of an error of vec, which counts its environments from 0, which ones those are.
func (s *shard) located(err error) error {
	if s.first == 0 {
		return err
	}
	n := s.vec.Len()
	return fmt.Errorf("environments %d-%d, called 0-%d in what follows: %w", s.first, s.first+n-1, n-1, err)
}

// over reports whether every environment's episode has ended and none begins by itself.
func (s *shard) over() bool {
	term, trunc := s.now.Terminated.U8(), s.now.Truncated.U8()
	k := s.now.Reward.Dim(1)
	for n := 0; n < len(term); n += k {
		var done byte
		for i := n; i < n+k; i++ {
			done |= term[i] | trunc[i]
		}
		if done == 0 {
			return false
		}
	}
	return true
}

// advance receives actions over every lane, and takes a step.
func (s *shard) advance(ctx context.Context, trace *tracer) error {
	for _, l := range s.lanes {
		item, err := l.act.Get(ctx)
		if err != nil {
			return fmt.Errorf("actions for environments %d-%d: %w", l.lo, l.hi-1, err)
		}
		s.accept(l, item.Dict)
		l.act.Release(item)
	}
	start := trace.start()
	if err := s.step(); err != nil {
		return err
	}
	trace.done("simulate", start)
	return nil
}

// accept copies the actions of a lane's rows.
func (s *shard) accept(l *envLane, d tensor.Dict) {
	a := d.Must("action").Bytes()
	copy(s.action.Must("action").Bytes()[l.row*len(a)/(l.hi-l.lo):], a)
}

// send sends what the environments returned last, over every lane.
func (s *shard) send(ctx context.Context, version int64) error {
	for _, l := range s.lanes {
		item, err := l.obs.Take(ctx, l.layout)
		if err != nil {
			return fmt.Errorf("observations of environments %d-%d: %w", l.lo, l.hi-1, err)
		}
		item.Lo, item.Hi, item.Version = l.lo, l.hi, version
		l.fill(item.Dict, s.now)
		if err := l.obs.Put(ctx, item); err != nil {
			return fmt.Errorf("observations of environments %d-%d: %w", l.lo, l.hi-1, err)
		}
	}
	return nil
}

// fill copies the lane's rows of a step, in the order of job.stepLayout.
func (l *envLane) fill(to tensor.Dict, from *env.Step) {
	at := 0
	rows := func(src tensor.Tensor) {
		_, dst := to.Entry(at)
		at++
		copy(dst.Bytes(), src.Bytes()[l.row*len(dst.Bytes())/(l.hi-l.lo):])
	}
	for i := range from.Obs.Len() {
		_, t := from.Obs.Entry(i)
		rows(t)
	}
	for i := range from.FinalObs.Len() {
		_, t := from.FinalObs.Entry(i)
		rows(t)
	}
	rows(from.Reward)
	rows(from.Terminated)
	rows(from.Truncated)
	if at < to.Len() {
		rows(from.Info)
	}
}
