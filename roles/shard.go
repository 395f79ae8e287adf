package roles

import (
	"fmt"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/tensor"
)

// A shard is environments that step together, with what training and metrics need to know
// of their episodes.
type shard struct {
	vec       env.Vec
	now       *env.Step   // what they returned last
	action    tensor.Dict // what they take next
	seeder    *env.Seeder
	episodes  *env.Episodes
	autoReset bool
	running   bool    // episodes go on from earlier
	first     int     // the number of its first environment among all
	camera    *camera // films evaluations; nil: there is none
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
	s.now.Status.Zero()
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

// save returns the state of the environments and of their episodes.
func (s *shard) save() (tensor.Dict, error) {
	d, err := env.Save(s.vec)
	if err != nil {
		return d, err
	}
	seeds, err := s.seeder.Save()
	if err != nil {
		return d, err
	}
	sums, err := s.episodes.Save()
	if err != nil {
		return d, err
	}
	for _, more := range []tensor.Dict{seeds, sums} {
		for i := range more.Len() {
			d.Set(more.Entry(i))
		}
	}
	for i := range s.now.Obs.Len() {
		name, t := s.now.Obs.Entry(i)
		d.Set("observed."+name, t)
	}
	return d, nil
}

// load puts back what save returned; episodes go on. Where the seeds alone were saved new ones
// begin.
func (s *shard) load(d tensor.Dict) error {
	if err := s.seeder.Load(d); err != nil || !hasEpisodes(d) {
		return err
	}
	if err := env.Load(s.vec, d); err != nil {
		return err
	}
	if err := s.episodes.Load(d); err != nil {
		return err
	}
	for i := range s.now.Obs.Len() {
		name, t := s.now.Obs.Entry(i)
		from, ok := d.Get("observed." + name)
		if !ok || !from.SameShape(t) {
			return fmt.Errorf("saved observation %s: %v, want %v", name, from, t)
		}
		t.CopyFrom(from)
	}
	s.running = true
	return nil
}

// hasEpisodes reports whether a state of environments has their episodes, which go on then.
func hasEpisodes(d tensor.Dict) bool {
	_, ok := d.Get("episodes.return")
	return ok
}
