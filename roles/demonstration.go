package roles

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/philox"
	"github.com/rlinf/rlinf/tensor"
)

// A demonstration is what an expert did: episodes one after another, each in the order of time.
type demonstration struct {
	episodes int     // to keep
	noise    float64 // standard deviation
	all      bool    // keep failures
	seed     uint64  // of the noise

	spec              env.Spec
	fields            []tensor.Field // of one transition
	kept              [][]byte       // transitions, laid out as fields are
	played, succeeded int            // episodes
}

// play lets the expert of cfg's environments play until enough episodes are kept. Every environment
// gives its share of them, so that short episodes do not come first.
func (d *demonstration) play(reg *env.Registry, cfg env.Config) error {
	n := min(cfg.TotalNumEnvs, d.episodes)
	cfg.AutoReset = true
	s, err := newShard(reg, cfg, env.Train, 0, n, 1)
	if err != nil {
		return UsageError{err}
	}
	defer s.vec.Close()
	d.spec = s.vec.Spec()
	d.fields = demonstrationFields(d.spec)
	if d.noise > 0 && d.spec.Action.Kind != env.Box {
		return UsageError{fmt.Errorf("--noise %g: %s takes choices, to which none can be added", d.noise, d.spec.Name)}
	}
	if err := s.begin(); err != nil {
		return err
	}
	before := d.spec.NewStep(n, 1).Obs
	success := d.spec.InfoIndex("success")
	kept, missing := make([][][]byte, n), make([]int, n)
	running, succeeded := make([][][]byte, n), make([]bool, n)
	for i := range missing {
		missing[i] = (d.episodes + n - 1 - i) / n
	}
	for left, t := d.episodes, uint64(0); left > 0; t++ {
		if err := env.Act(s.vec, s.action.Must("action")); errors.Is(err, errors.ErrUnsupported) {
			return UsageError{fmt.Errorf("%w: want environments that have one", err)}
		} else if err != nil {
			return UsageError{err}
		}
		d.disturb(s.action.Must("action"), t)
		before.CopyFrom(s.now.Obs)
		if err := s.step(); err != nil {
			return err
		}
		for i := range n {
			if missing[i] == 0 {
				continue
			}
			_, ended := s.now.Took(i)
			running[i] = append(running[i], d.transition(i, before, s, ended))
			succeeded[i] = succeeded[i] || success >= 0 && s.now.Info.F32()[i*len(d.spec.Info)+success] != 0
			if !ended {
				continue
			}
			d.played++
			if succeeded[i] {
				d.succeeded++
			}
			if succeeded[i] || d.all {
				kept[i] = append(kept[i], running[i]...)
				missing[i]--
				left--
			}
			running[i], succeeded[i] = nil, false
		}
		if d.played > 100 && d.succeeded*100 < d.played && !d.all {
			return fmt.Errorf("%s: the expert succeeded in %d of %d episodes: want less --noise, or --all", d.spec.Name,
				d.succeeded, d.played)
		}
	}
	for _, episodes := range kept {
		d.kept = append(d.kept, episodes...)
	}
	return nil
}

// demonstrationFields are the tensors of one transition.
func demonstrationFields(spec env.Spec) []tensor.Field {
	var fields []tensor.Field
	for _, prefix := range []string{"observation.", "next_observation."} {
		for _, f := range spec.Obs {
			fields = append(fields, tensor.Field{Name: prefix + f.Name, DType: f.DType, Shape: f.Shape})
		}
	}
	return append(fields,
		tensor.Field{Name: "action", DType: spec.Action.DType, Shape: []int{1, spec.Action.Dim()}},
		tensor.Field{Name: "reward", DType: tensor.F32}, tensor.Field{Name: "terminated", DType: tensor.U8},
		tensor.Field{Name: "truncated", DType: tensor.U8})
}

// disturb adds noise to actions, within their bounds.
func (d *demonstration) disturb(action tensor.Tensor, t uint64) {
	if d.noise == 0 {
		return
	}
	space := d.spec.Action
	dim := space.Dim()
	for n := range action.Dim(0) {
		r := philox.New(d.seed, philox.Action, uint64(n), t)
		for i := range dim {
			z, _ := r.Normal()
			a := &action.F32()[n*dim+i]
			*a = min(max(*a+float32(d.noise*z), space.Low[i]), space.High[i])
		}
	}
}

// transition returns what environment i of s did in its last step.
func (d *demonstration) transition(i int, before tensor.Dict, s *shard, ended bool) []byte {
	next := s.now.Obs
	if ended {
		next = s.now.FinalObs
	}
	var out []byte
	row := func(t tensor.Tensor) {
		size := len(t.Bytes()) / t.Dim(0)
		out = append(out, t.Bytes()[i*size:(i+1)*size]...)
	}
	for _, obs := range []tensor.Dict{before, next} {
		for _, f := range d.spec.Obs {
			row(obs.Must(f.Name))
		}
	}
	for _, t := range []tensor.Tensor{s.action.Must("action"), s.now.Reward, s.now.Terminated, s.now.Truncated} {
		row(t)
	}
	return out
}

// write writes the transitions kept, the leading dimension of every tensor.
func (d *demonstration) write(w io.Writer) error {
	var all tensor.Dict
	at := 0
	for _, f := range d.fields {
		size := f.Bytes()
		t := tensor.New(f.DType, append([]int{len(d.kept)}, f.Shape...)...)
		for i, transition := range d.kept {
			copy(t.Bytes()[i*size:], transition[at:at+size])
		}
		all.Set(f.Name, t)
		at += size
	}
	return tensor.WriteSafetensors(w, all, map[string]string{
		"env": d.spec.Name, "episodes": strconv.Itoa(d.episodes), "success_rate": strconv.FormatFloat(d.successRate(),
			'g', -1, 64),
	})
}

// successRate is the share of successes among the episodes played.
func (d *demonstration) successRate() float64 { return float64(d.succeeded) / float64(d.played) }
