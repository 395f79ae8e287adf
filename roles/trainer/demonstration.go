package trainer

import (
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strconv"
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

	Spec              env.Spec       // the spec of the environments, after Play
	fields            []tensor.Field // the tensors of one transition
	Kept              [][]byte       // encoded transitions
	own, last         tensor.Tensor  // actions to record: of this step, and of the previous step
	Played, Succeeded int            // numbers of played and of successful episodes
	Omitted           int            // number of steps that Still has left out of the played episodes
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
	d.fields = d.transitionFields()
	if d.Noise > 0 && d.Spec.Action.Kind != env.Box {
		return config.Usagef("--noise %g: %s takes choices, to which none can be added", d.Noise, d.Spec.Name)
	}
	if err := s.Begin(); err != nil {
		return err
	}
	before := d.Spec.NewStep(n, 1).Obs
	success := d.Spec.InfoIndex("success")
	kept, missing := make([][][]byte, n), make([]int, n)
	running, succeeded := make([][][]byte, n), make([]bool, n)
	for i := range missing {
		missing[i] = (d.Episodes + n - 1 - i) / n
	}
	want, task := shares(d.Spec.TaskWeights, d.Episodes), d.Spec.InfoIndex(env.TaskNumber)
	for left, t := d.Episodes, uint64(0); left > 0; t++ {
		if err := d.act(s, t); err != nil {
			return err
		}
		before.CopyFrom(s.Now.Obs)
		if err := s.Step(); err != nil {
			return err
		}
		for i := range n {
			if missing[i] == 0 {
				continue
			}
			_, ended := s.Now.Took(i)
			if ended || len(running[i]) == 0 || !d.idle(d.own, i) {
				running[i] = append(running[i], d.transition(i, before, s, ended))
			} else {
				d.Omitted++
			}
			infos := s.Now.InfoOf(i)
			for at := success; success >= 0 && at < len(infos); at += len(d.Spec.Info) {
				succeeded[i] = succeeded[i] || infos[at] != 0
			}
			if !ended {
				continue
			}
			d.Played++
			if succeeded[i] {
				d.Succeeded++
			}
			of := 0
			if len(d.Spec.Tasks) > 0 {
				of = int(infos[len(infos)-len(d.Spec.Info)+task])
			}
			if (succeeded[i] || d.All) && want[of] > 0 {
				want[of]--
				kept[i] = append(kept[i], running[i]...)
				missing[i]--
				left--
				d.Progress.Report("demonstration", d.Episodes-left, d.Episodes)
			}
			running[i], succeeded[i] = nil, false
		}
		d.last.CopyFrom(d.own)
		if d.Played > 100 && d.Succeeded*100 < d.Played && !d.All {
			return fmt.Errorf("%s: the expert succeeded in %d of %d episodes: expected less --noise, or --all",
				d.Spec.Name, d.Succeeded, d.Played)
		}
	}
	for _, episodes := range kept {
		d.Kept = append(d.Kept, episodes...)
	}
	return nil
}

// act sets the actions of step t to the expert's actions with noise. It stores the actions to record in d.own.
func (d *Demonstration) act(s *play.Stage, t uint64) error {
	if err := env.Act(s.Vec, s.Action.Must(algo.FieldAction)); errors.Is(err, errors.ErrUnsupported) {
		return config.Usagef("%w: expected environments that have one", err)
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
	s.Record(file, programs.Entry{})
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

// transitionFields describes the tensors of one transition.
func (d *Demonstration) transitionFields() []tensor.Field {
	var fields []tensor.Field
	sections := []string{algo.Observations, algo.NextObservations}
	if d.NoNext {
		sections = sections[:1]
	}
	for _, section := range sections {
		for _, f := range d.Spec.Obs {
			fields = append(fields, tensor.Field{Name: section + "." + f.Name, DType: f.DType, Shape: f.Shape})
		}
	}
	action := d.Spec.Action
	return append(fields, []tensor.Field{
		{Name: algo.FieldAction, DType: action.DType, Shape: []int{1, action.Dim()}},
		{Name: algo.FieldReward, DType: tensor.F32},
		{Name: algo.FieldTerminated, DType: tensor.U8},
		{Name: algo.FieldTruncated, DType: tensor.U8}}...)
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

// transition encodes the last step of environment i of s. obsBefore has the observations before the step.
func (d *Demonstration) transition(i int, obsBefore tensor.Dict, s *play.Stage, ended bool) []byte {
	observations := []tensor.Dict{obsBefore, s.Now.Obs}
	if ended {
		observations[1] = s.Now.FinalObs
	}
	if d.NoNext {
		observations = observations[:1]
	}
	var out []byte
	row := func(t tensor.Tensor) {
		size := len(t.Bytes()) / t.Dim(0)
		out = append(out, t.Bytes()[i*size:(i+1)*size]...)
	}
	for _, obs := range observations {
		for _, f := range d.Spec.Obs {
			row(obs.Must(f.Name))
		}
	}
	for _, t := range []tensor.Tensor{d.own, s.Now.Reward, s.Now.Terminated, s.Now.Truncated} {
		row(t)
	}
	return out
}

// Write writes the kept transitions as safetensors. The first dimension of every tensor is the number of transitions.
func (d *Demonstration) Write(w io.Writer) error {
	var all tensor.Dict
	at := 0
	for _, f := range d.fields {
		size := f.Bytes()
		t := tensor.New(f.DType, append([]int{len(d.Kept)}, f.Shape...)...)
		for i, transition := range d.Kept {
			copy(t.Bytes()[i*size:], transition[at:at+size])
		}
		all.Set(f.Name, t)
		at += size
	}
	return tensor.WriteSafetensors(w, all, map[string]string{"env": d.Spec.Name, "episodes": strconv.Itoa(d.Episodes),
		"success_rate": fmt.Sprint(float64(d.Succeeded) / float64(d.Played))})
}
