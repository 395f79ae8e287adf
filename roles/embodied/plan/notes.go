package plan

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/policy"
	"github.com/rlinf/rlinf/roles/embodied/play"
	"github.com/rlinf/rlinf/roles/job"
)

// Notes returns warnings that the user should see before the job begins.
func (p *Plan) Notes() []string {
	notes := slices.Clone(p.notes)
	if p.Unrenderable != "" {
		notes = append(notes, "env.eval.video_cfg.save_video: there is no film, because "+p.Unrenderable+
			" draws no pictures")
	}
	if repeated := p.repeatedStates(); repeated != "" {
		key := "group_size"
		if p.Config.Env.Eval.GroupSize <= 1 {
			key = "use_fixed_reset_state_ids"
		}
		notes = append(notes, fmt.Sprintf("env.eval.%s: an evaluation plays %s", key, repeated))
	}
	if m, d := &p.Config.Actor.Model, policy.DefaultConfig(); len(p.Spec.Action.Nvec) > 0 && p.Config.Trains() {
		const choices = ": no effect, because choices have no deviation"
		if m.InitLogStd != d.InitLogStd {
			notes = append(notes, "actor.model.init_log_std"+choices)
		}
		if m.LearnStd != d.LearnStd {
			notes = append(notes, "actor.model.learn_std"+choices)
		}
	}
	if p.alone && p.Config.Cluster.AutoScheduler {
		notes = append(notes, "cluster.auto_scheduler: workers cannot move, because there is one rank")
	}
	if p.Config.Runner.SaveInterval > 0 && p.forgetful() {
		notes = append(notes, p.NotSaved())
	}
	notes = append(notes, p.recordingNotes()...)
	if p.Config.Trains() && !p.Offline {
		notes = append(notes, p.limitNote("env.train", p.Spec)...)
	}
	if p.Config.Evaluates() {
		notes = append(notes, p.limitNote("env.eval", p.EvalSpec)...)
	}
	return slices.Compact(notes) // evaluations may have the key of training
}

// recordingNotes returns notes about sections that record episodes: that a setting has no effect, that other files than
// RLinf's are written, or that an earlier run has left unfinished recordings.
func (p *Plan) recordingNotes() (notes []string) {
	for _, of := range []struct {
		use     env.Use
		section string
		env     *env.Config
		records bool
	}{{env.Train, "env.train", &p.Config.Env.Train, p.Config.Trains() && !p.Offline},
		{env.Eval, "env.eval", &p.Config.Env.Eval, p.Config.Evaluates()}} {
		switch {
		case !of.env.DataCollection.Enabled:
		case !of.records:
			notes = append(notes, of.section+".data_collection.enabled: no effect, because nothing is played there")
		case of.env.DataCollection.ExportFormat == env.ExportPickle:
			notes = append(notes, of.section+".data_collection: the end of the run writes the episodes as "+
				"demonstrations in safetensors, not as pickles")
		}
		if dir := p.Config.RecordDir(of.use); dir != "" {
			file := filepath.Join(dir, strings.TrimPrefix(of.section, "env.")+".safetensors")
			if left, _ := play.Tapes(file); len(left) > 0 {
				notes = append(notes, fmt.Sprintf("%s.data_collection: another run has left %s and its like: if "+
					"that run no longer goes on, its episodes are lost", of.section, left[0]))
			}
		}
	}
	return notes
}

// limitNote returns a warning if max_episode_steps is above the time limit of a simulator that may end episodes by
// itself.
func (p *Plan) limitNote(section string, spec env.Spec) []string {
	if spec.OwnLimit == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%s: %d, but %s names a limit of its own: %d. Episodes may end there, unless its "+
		"program gets a higher limit", p.Config.EnvKey(section, "max_episode_steps"), spec.MaxSteps, spec.Name,
		spec.OwnLimit)}
}

// checkShare checks that validation_share sets aside at least one episode of the demonstrations.
func (d *Draft) checkShare(path string) {
	share := d.Config.Algorithm.OffPolicy.Demos.ValidationShare
	if share == 0 || d.Config.Algorithm.LooksAhead() {
		return
	}
	_, aside := algo.SplitDemos(d.demos, share)
	transitions := d.demos.Must(algo.FieldReward).Dim(0)
	d.found.Want(aside.Len() > 0, "algorithm.demo_buffer.validation_share", share, fmt.Sprintf("a share that sets "+
		"whole episodes aside and leaves others: of the %d transitions in %s it sets none aside", transitions, path))
}

// noteGaps adds a warning if steps are missing between the demonstrations in the file at path. It does so only if the
// algorithm sums the rewards of successive steps.
func (d *Draft) noteGaps(path string) error {
	c := &d.Config.Algorithm
	several := fmt.Sprintf("algorithm.n_step %d", c.OffPolicy.NStep)
	if c.OffPolicy.NStep <= 1 {
		several = fmt.Sprintf("actor.model.num_action_chunks %d", d.Config.Actor.Model.NumActionChunks)
	}
	if !c.LooksAhead() || c.OffPolicy.NStep <= 1 && d.Config.Actor.Model.NumActionChunks <= 1 {
		return nil
	}
	gaps, all, err := demoGaps(path)
	if err == nil && gaps > 0 {
		d.notes = append(d.notes, fmt.Sprintf("%s adds up rewards of successive steps, and steps are missing after %d "+
			"of the %d transitions in %s, as after rlinf demos --still: expected a file with all steps", several, gaps,
			all, path))
	}
	return err
}

// demoGaps returns the number of transitions in the file at path that are not followed by their next observation,
// although their episode goes on, and the number of all transitions. It reads the file in pieces.
func demoGaps(path string) (gaps, all int, err error) {
	f, err := job.OpenTensors(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	ends := map[int]bool{}
	for _, name := range []string{algo.FieldTerminated, algo.FieldTruncated} {
		i := f.Index(name)
		flags := make([]byte, f.Fields[i].Bytes())
		if err := f.ReadTensor(i, flags, 0); err != nil {
			return 0, 0, err
		}
		for t, flag := range flags {
			ends[t] = ends[t] || flag != 0
		}
	}
	apart := map[int]bool{}
	for i, field := range f.Fields {
		name, ok := strings.CutPrefix(field.Name, algo.NextObservations+".")
		now := f.Index(algo.Observations + "." + name)
		if !ok || now < 0 {
			continue
		}
		all = field.Shape[0]
		size := field.Bytes() / all
		next, after := make([]byte, size), make([]byte, size)
		for t := 0; t+1 < all; t++ {
			if ends[t] || apart[t] {
				continue
			}
			if err := f.ReadTensor(i, next, t*size); err != nil {
				return 0, 0, err
			}
			if err := f.ReadTensor(now, after, (t+1)*size); err != nil {
				return 0, 0, err
			}
			apart[t] = !bytes.Equal(next, after)
		}
	}
	for _, missing := range apart {
		if missing {
			gaps++
		}
	}
	return gaps, all, nil
}
