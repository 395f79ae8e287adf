package trainer

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/internal/programs"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/tensor"
)

// A Demonstration records episodes of an expert. The steps of an episode follow each other in order.
type Demonstration struct {
	Episodes int     // number of episodes to keep
	Noise    float64 // standard deviation of the noise added to actions
	Clean    bool    // record the expert's own action, without the noise
	All      bool    // keep failed episodes, too
	NoNext   bool    // omit next observations
	Still    float64 // omit steps with actions below this value and an unchanged gripper command; 0 to omit none
	Seed     uint64  // seed of the noise

	Progress algo.Progress // counts the kept episodes; may be nil

	Spec              env.Spec // the spec of the environments, after Play
	transitions       *play.TransitionEncoder
	episodes          []algo.DemoEpisode // the kept episodes
	Kept              [][]byte           // encoded transitions
	own, last         tensor.Tensor      // actions to record: of this step, and of the previous step
	Played, Succeeded int                // numbers of played and of successful episodes
	Omitted           int                // number of steps that Still has left out of the played episodes
}

// shares splits n into whole numbers in proportion to weights. The first positive weights get the remainder, one each.
// Without weights, n is the only share.
func shares(weights []float64, n int) []int {
	if len(weights) == 0 {
		return []int{n}
	}
	all, sum, given := make([]int, len(weights)), 0.0, 0
	for _, w := range weights {
		sum += w
	}
	for i, w := range weights {
		all[i] = int(float64(n) * w / sum)
		given += all[i]
	}
	for i := 0; given < n; i = (i + 1) % len(all) {
		if weights[i] > 0 {
			all[i]++
			given++
		}
	}
	return all
}

// idle reports whether the action of environment i moves nothing. The last number of an action is the gripper command,
// which must be the same as in the previous step. All other magnitudes must be below Still.
func (d *Demonstration) idle(action tensor.Tensor, i int) bool {
	if d.Still == 0 || action.DType() != tensor.F32 {
		return false
	}
	fingers := d.Spec.Action.Dim() - 1
	now, before := action.F32()[i*(fingers+1):], d.last.F32()[i*(fingers+1):]
	for _, a := range now[:fingers] {
		if math.Abs(float64(a)) >= d.Still {
			return false
		}
	}
	return now[fingers] == before[fingers]
}

// Play lets the expert of cfg's environments play until there are enough episodes. Every environment contributes the
// same number of episodes, so that short episodes are not preferred. In a suite, the number of episodes per task is
// proportional to the task's weight.
func (d *Demonstration) Play(reg *env.Registry, cfg env.Config) error {
	n := min(cfg.TotalNumEnvs, d.Episodes)
	cfg.AutoReset, cfg.GroupSize = true, 1 // in a group the expert would repeat itself
	s, err := play.NewStage(reg, cfg, env.Train, 0, n, 1)
	if err != nil {
		return config.UsageError{Err: err}
	}
	defer s.Vec.Close()
	d.Spec = s.Vec.Spec()
	if d.Noise > 0 && d.Spec.Action.Kind != env.Box {
		return config.Usagef("--noise %g: %s takes choices, to which none can be added", d.Noise, d.Spec.Name)
	}
	d.transitions = play.NewTransitionEncoder(d.Spec, n, 1, !d.NoNext)
	last := make([]env.Episode, n) // the last ended episode of each environment
	s.Episodes.OnEnd = func(e env.Episode) { last[e.Env] = e }
	if err := s.Begin(); err != nil {
		return err
	}
	kept, missing := make([][][]byte, n), make([]int, n)
	episodes, running := make([][]algo.DemoEpisode, n), make([][][]byte, n)
	for i := range missing {
		missing[i] = (d.Episodes + n - 1 - i) / n
	}
	want := shares(d.Spec.TaskWeights, d.Episodes)
	for left, t := d.Episodes, uint64(0); left > 0; t++ {
		if err := d.act(s, t); err != nil {
			return err
		}
		d.transitions.Begin(s.Now.Obs)
		if err := s.Step(); err != nil {
			return err
		}
		for i := range n {
			if missing[i] == 0 {
				continue
			}
			_, ended := s.Now.Took(i)
			if ended || len(running[i]) == 0 || !d.idle(d.own, i) {
				running[i] = append(running[i], d.transitions.Append(nil, i, d.own, s.Now, s.Now.FinalObs))
			} else {
				d.Omitted++
			}
			if !ended {
				continue
			}
			e, of := last[i], max(last[i].Task-1, 0)
			if !e.Aborted {
				d.Played++
			}
			if e.SuccessOnce && !e.Aborted {
				d.Succeeded++
			}
			if (e.SuccessOnce || d.All) && !e.Aborted && want[of] > 0 {
				want[of]--
				kept[i] = append(kept[i], running[i]...)
				episodes[i] = append(episodes[i], d.transitions.Episode(e, running[i][0], len(running[i])))
				missing[i]--
				left--
				d.Progress.Report("demonstration", d.Episodes-left, d.Episodes)
			}
			running[i] = nil
		}
		d.last.CopyFrom(d.own)
		if d.Played > 100 && d.Succeeded*100 < d.Played && !d.All {
			return fmt.Errorf("%s: the expert succeeded in %d of %d episodes: expected less --noise, or --all",
				d.Spec.Name, d.Succeeded, d.Played)
		}
	}
	for i := range kept {
		d.Kept, d.episodes = append(d.Kept, kept[i]...), append(d.episodes, episodes[i]...)
	}
	return nil
}

// act sets the actions of step t to the expert's actions with noise. It stores the actions to record in d.own.
func (d *Demonstration) act(s *play.Stage, t uint64) error {
	if err := env.Act(s.Vec, s.Action.Must(algo.FieldAction)); errors.Is(err, errors.ErrUnsupported) {
		return config.Usagef("%s has no expert: expected an environment with one: docs/experience.md",
			s.Vec.Spec().Name)
	} else if err != nil {
		return config.UsageError{Err: err}
	}
	action := s.Action.Must(algo.FieldAction)
	switch {
	case !d.Clean:
		d.own = action
	case t == 0:
		d.own = action.Clone()
	default:
		d.own.CopyFrom(action)
	}
	d.disturb(action, t)
	if t == 0 {
		d.last = d.own.Clone()
	}
	return nil
}

// FilmExpert writes a film of the expert to file: one episode in each of the first environments of cfg.
func FilmExpert(reg *env.Registry, cfg env.Config, file string) error {
	cfg.VideoCfg.SaveVideo, cfg.VideoCfg.Format = true, strings.TrimPrefix(filepath.Ext(file), ".")
	s, err := play.NewStage(reg, cfg, env.Eval, 0, min(cfg.VideoCfg.NumEnvs, cfg.TotalNumEnvs), 1)
	if err != nil {
		return config.Usagef("film the expert: %w", err)
	}
	defer s.Vec.Close()
	s.Record(file, programs.Entered{})
	if err := s.Begin(); err != nil {
		return err
	}
	for !s.Over() {
		if err := env.Act(s.Vec, s.Action.Must(algo.FieldAction)); err != nil {
			return config.UsageError{Err: err}
		}
		if err := s.Step(); err != nil {
			return err
		}
	}
	return nil
}

// disturb adds noise to actions, and clips the results to the bounds of actions.
func (d *Demonstration) disturb(action tensor.Tensor, t uint64) {
	if d.Noise == 0 {
		return
	}
	space := d.Spec.Action
	dim := space.Dim()
	for n := range action.Dim(0) {
		r := philox.New(d.Seed, philox.Action, uint64(n), t)
		for i := range dim {
			z, _ := r.Normal()
			a := &action.F32()[n*dim+i]
			*a = min(max(*a+float32(d.Noise*z), space.Low[i]), space.High[i])
		}
	}
}

// Write writes the kept transitions to the file at path: see algo.WriteDemos.
func (d *Demonstration) Write(path string) error {
	rate := float64(d.Succeeded) / float64(d.Played)
	return algo.WriteDemos(path, d.transitions.Header(d.episodes, rate), func(add func([]byte) error) error {
		for _, transition := range d.Kept {
			if err := add(transition); err != nil {
				return err
			}
		}
		return nil
	})
}
