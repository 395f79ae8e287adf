package ask

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/env"
	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/tensor"
)

// A Run is the folder of a run. It is only read.
type Run struct {
	Dir     string
	Config  *config.Config // of the last start
	Last    int64          // the last step with metrics
	Repeats int64          // the last step that can be repeated: Last, or that of the first resume if it lost episodes
	Members map[string]int // the number of members of each component
	Ranks   int
	States  []StartPoint // in the order of steps; the first is the start
	Damaged []error      // what is wrong with other checkpoints

	reg   config.Registries
	keeps bool // see keepsEpisodes
}

// A StartPoint is a state from which a run can be repeated.
type StartPoint struct {
	Step int64
	// Checkpoint is nil for the start of a run.
	Checkpoint *checkpoint.Checkpoint
}

// Open reads the run in the folder dir.
func Open(reg config.Registries, dir string) (*Run, error) {
	r := &Run{Dir: filepath.Clean(dir), States: []StartPoint{{}}, Members: map[string]int{}, reg: reg}
	err := r.read()
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", r.Dir, err)
	}
	return r, nil
}

func (r *Run) read() error {
	if info, err := os.Stat(r.Dir); err != nil || !info.IsDir() {
		return errors.New("no such folder, expected the folder of a run")
	}
	text, err := durable.ReadFile(filepath.Join(r.Dir, "config.yaml"), durable.Text)
	if err != nil {
		return fmt.Errorf("expected the folder of a run: %w", err)
	}
	if r.Config, err = config.Parse(r.reg, text); err == nil {
		err = r.Config.CheckNames(r.reg)
	}
	if err != nil {
		return fmt.Errorf("config.yaml: %w", err)
	}
	last, ok := metrics.LastStep(r.metrics())
	if !ok {
		return errors.New("no metrics: the run has made no step")
	}
	r.Last = last
	ranks, err := runfolder.ReadRanks(r.Dir)
	if err != nil {
		return err
	}
	r.Ranks = len(ranks)
	for _, rank := range ranks {
		for _, member := range rank.Components {
			component, _, _ := strings.Cut(member, "[")
			r.Members[component]++
		}
	}
	if err := r.readStates(); err != nil {
		return err
	}
	r.keeps = r.keepsEpisodes()
	r.Repeats = r.repeats()
	return nil
}

// repeats returns the last step that can be repeated. It is 0 if the run began from a checkpoint of another run,
// without the states of the simulators.
func (r *Run) repeats() int64 {
	for i, from := range runfolder.Resumes(r.Dir) {
		if from == "" || r.keeps {
			continue
		}
		if step, ok := checkpoint.StepOf(from); ok && i > 0 {
			return min(r.Last, step)
		}
		return 0
	}
	return r.Last
}

func (r *Run) metrics() string { return filepath.Join(r.Dir, "metrics.jsonl") }

// readStates lists the checkpoints of the run.
func (r *Run) readStates() error {
	folders, err := filepath.Glob(filepath.Join(r.Dir, "checkpoints", "global_step_*"))
	if err != nil {
		return err
	}
	for _, dir := range folders {
		step, ok := checkpoint.StepOf(dir)
		if !ok || step > r.Last {
			continue
		}
		c, err := checkpoint.Load(dir)
		if err != nil {
			r.Damaged = append(r.Damaged, err)
			continue
		}
		r.States = append(r.States, StartPoint{step, c})
	}
	slices.SortFunc(r.States, func(a, b StartPoint) int { return int(a.Step - b.Step) })
	return nil
}

// Before returns the newest state before step.
func (r *Run) Before(step int64) StartPoint {
	at := r.States[0]
	for _, s := range r.States {
		if s.Step < step && r.startsAt(s) {
			at = s
		}
	}
	return at
}

// startsAt reports whether a repetition from s gives the same numbers as a run that did not stop there.
func (r *Run) startsAt(s StartPoint) bool { return s.Checkpoint == nil || r.keeps }

// keepsEpisodes reports whether a checkpoint has all that the next iteration needs. Simulators of other programs may
// keep a state that no checkpoint has.
func (r *Run) keepsEpisodes() bool {
	train := &r.Config.Env.Train
	return r.Config.ReadsTexts() || train.ID() != env.ExternalID || !train.AutoReset || r.savesSimulators()
}

// savesSimulators reports whether every checkpoint has the states of the environments.
func (r *Run) savesSimulators() bool {
	return !slices.ContainsFunc(r.States[1:], func(s StartPoint) bool {
		f, err := checkpoint.OpenTensors(filepath.Join(s.Checkpoint.Dir, "env.safetensors"))
		if err != nil {
			return true
		}
		defer f.Close()
		return !slices.ContainsFunc(f.Fields, func(x tensor.Field) bool {
			return !strings.HasPrefix(x.Name, "seeder.") // a seeder says which seeds come next
		})
	})
}

// Repeatable returns an error that says why the numbers of the run do not repeat; nil if they do.
func (r *Run) Repeatable() error {
	refuse := func(key string, value any, why string) error {
		return fmt.Errorf("run %s: %s: %v: %s, so its numbers do not repeat", r.Dir, key, value, why)
	}
	c := r.Config
	switch {
	case c.Runner.Async:
		return refuse("runner.async", true, "the run depends on the clock")
	case !c.Runner.Deterministic:
		return refuse("runner.deterministic", false, "the run depends on its placement")
	case r.Repeats == 0:
		return refuse("env.train.auto_reset", true, "the run began from a checkpoint, and its simulators do not save "+
			"their states")
	}
	if err := r.sameInputs(); err != nil {
		return err
	}
	lost := int64(0)
	_, err := metrics.ReadLines(r.metrics(), 0, func(line []byte, _ int64) error {
		if n := metrics.Number(line, "env/num_lost"); n > 0 && lost == 0 {
			lost = int64(metrics.Number(line, "step"))
		}
		return nil
	})
	if err == nil && lost > 0 {
		return refuse("env/num_lost", fmt.Sprintf("above 0 in step %d", lost),
			"simulators failed")
	}
	return err
}

// CheckStep returns an error if the run has not made step, or if step cannot be repeated.
func (r *Run) CheckStep(step int64) error {
	switch {
	case step < 1 || step > r.Last:
		return fmt.Errorf("step %d: expected a step of run %s, 1 to %d", step, r.Dir, r.Last)
	case step > r.Repeats:
		return fmt.Errorf("step %d: %s", step, r.Unrepeated())
	}
	return nil
}

// Unrepeated says why the last steps of the run do not repeat; "" if they do.
func (r *Run) Unrepeated() string {
	if r.Repeats == r.Last {
		return ""
	}
	return fmt.Sprintf("run %s was resumed after step %d, and its simulators do not save their states "+
		"(env.train.auto_reset: true), so only steps 1 to %d repeat", r.Dir, r.Repeats, r.Repeats)
}

// sameInputs returns an error if a file that the run has read is gone, or has changed.
func (r *Run) sameInputs() error {
	start, _ := runfolder.LastStart(r.Dir)
	for _, path := range slices.Sorted(maps.Keys(start.Inputs)) {
		now, err := runfolder.HashPath(path)
		if err != nil {
			return fmt.Errorf("run %s: %w: expected this file of the run, where it was started", r.Dir, err)
		}
		if now != start.Inputs[path] {
			return fmt.Errorf("run %s: %s has changed since the run: expected contents with the SHA-256 %s", r.Dir,
				path, start.Inputs[path])
		}
	}
	return nil
}

// A Stretch is a part of a run, from a state to the step Until.
type Stretch struct {
	From  StartPoint
	Until int64
	End   *checkpoint.Checkpoint // the run's checkpoint of step Until; nil if there is none
	// Config is a checkpoint with the configuration of the stretch; nil for that of the run's last start.
	Config *checkpoint.Checkpoint
}

func (s Stretch) String() string { return fmt.Sprintf("steps %d to %d", s.From.Step+1, s.Until) }

// Stretches divides the repeatable part of the run at its checkpoints. The last stretch ends with the last metrics.
func (r *Run) Stretches() (all []Stretch) {
	from := r.States[0]
	for _, s := range r.States[1:] {
		if s.Step > from.Step && s.Step <= r.Repeats {
			all = append(all, Stretch{from, s.Step, s.Checkpoint, s.Checkpoint})
		}
		if r.startsAt(s) {
			from = s
		}
	}
	if n := len(all); n == 0 || all[n-1].Until < r.Repeats {
		all = append(all, Stretch{From: from, Until: r.Repeats})
	}
	return all
}

// OtherProgram returns a note if another build made the run, or a processor with other vector instructions. The numbers
// of the run may then differ from those of this program. It returns "" otherwise.
func (r *Run) OtherProgram() string {
	p, ok := runfolder.LastStart(r.Dir)
	then, now := p.Build, runfolder.ReadBuild()
	if (then.Vectors == runfolder.NoVectors) == (now.Vectors == runfolder.NoVectors) { // all vectors give equal numbers
		then.Vectors = now.Vectors
	}
	if !ok || then == now {
		return ""
	}
	return fmt.Sprintf("note: %s was made by %s, and this program is %s: numbers may differ", r.Dir, p.Build, now)
}

// build returns the facts about the program of the run's last start.
func (r *Run) build() string {
	p, _ := runfolder.LastStart(r.Dir)
	return p.Build.String()
}
