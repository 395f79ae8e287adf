package session

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// examine is the life of one rank of a job that evaluates a language model. Each rank answers a share
// of the questions, and rank 0 writes the figures: the same on any number of ranks.
func (s *session) examine(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config,
	how Evaluation) error {
	s.phase(w, "loading the model")
	e, err := s.prepareExam(w, cfg, how)
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed {
		return err
	}
	s.phase(w, "evaluation")
	e.Progress = s.progress.Counter()
	mine, shown, err := e.take(ctx, w.Rank(), w.Size())
	if err = errors.Join(err, e.close()); err != nil {
		return err
	}
	all, err := gatherRows(ctx, world, mine)
	if err != nil || w.Rank() != 0 {
		return err
	}
	rows, total := make([]float64, w.Size()*len(mine)), make([]float64, len(mine))
	if _, err := binary.Decode(all, binary.LittleEndian, rows); err != nil {
		return err
	}
	for i, x := range rows {
		total[i%len(mine)] += x
	}
	s.progress.Done()
	return e.write(s.Out, total, shown, how.JSON)
}

// An examination is a language model and the questions that it is evaluated with.
type examination struct {
	*play.Exam
	job       *job.Job
	from      string // the model's folder or file
	questions int
	close     func() error
}

// prepareExam reads the model of cfg and the questions. Its errors are mistakes of the user.
func (s *session) prepareExam(w *spmd.World, cfg *config.Config, how Evaluation) (*examination, error) {
	j, m, from, err := s.loadExamined(w, cfg, how)
	if err != nil {
		return nil, err
	}
	e := &examination{job: j, questions: len(j.Tuning.Valid.Samples), from: from}
	o := j.Tuning.EngineOptions()
	o.Threads = max(cfg.Actor.Threads, cfg.Rollout.Threads)
	en, err := engine.New(m, o)
	if err != nil {
		return nil, err
	}
	grader, err := j.NewGrader(nil)
	if err != nil {
		return nil, err
	}
	e.Exam = j.NewExam(en, grader)
	e.close = func() error {
		en.Close()
		return grader.Close()
	}
	return e, nil
}

// loadExamined returns the language model of cfg, the folder or file that it is from, and the job in
// which it is evaluated, with as many samples as how asks for.
func (s *session) loadExamined(w *spmd.World, cfg *config.Config, how Evaluation) (j *job.Job, m *lm.Model, from string,
	err error) {
	if j, err = job.NewExamination(cfg, s.reg); err != nil {
		return nil, nil, "", err
	}
	t := j.Tuning
	if n := how.Episodes; n > len(t.Valid.Samples) {
		return nil, nil, "", fmt.Errorf("--episodes %d: expected at most %d, the samples of data.val_data_paths", n,
			len(t.Valid.Samples))
	} else if n > 0 {
		t.Valid.Samples = t.Valid.Samples[:n]
	}
	if m, err = t.Load(w.Alloc); err != nil {
		return nil, nil, "", err
	}
	from, weights, err := readLanguageModel(cfg, &t.Language, how.Checkpoint)
	if err != nil || from == "" {
		return j, m, cmp.Or(t.Below.Path, t.Base), err
	}
	if err := job.LoadModel(m.Params, weights); err != nil {
		return nil, nil, "", fmt.Errorf("%s: %w", from, err)
	}
	return j, m, from, nil
}

// readLanguageModel returns the trained tensors of a checkpoint: that in dir, else those of
// runner.ckpt_path, unless adapters stand on these, else the newest of the run's folder. from is ""
// where there is none, and l has all weights.
func readLanguageModel(cfg *config.Config, l *job.Language, dir string) (from string, d tensor.Dict, err error) {
	newest := latest(cfg)
	_, missing := os.Stat(newest)
	if missing != nil && dir == "" && (l.Below.Path != "" || cfg.Runner.CkptPath == "" && l.Base != "") {
		return "", d, nil
	}
	if missing == nil && dir == "" && l.Below.Path != "" {
		dir = newest
	}
	return readModel(cfg, dir)
}

// shownAtEnd is how many answers follow the figures.
const shownAtEnd = 3

func (e *examination) take(ctx context.Context, rank, size int) ([]float64, []play.Shown, error) {
	return e.Take(ctx, e.job.Tuning.ValidationQuestions(rank, size), shownAtEnd)
}

// write writes the figures, and some answers. JSON has one object with the same names.
func (e *examination) write(out io.Writer, sums []float64, shown []play.Shown, asJSON bool) error {
	names, values := play.ExamMetrics(sums)
	accuracy, pass := play.ExamIntervals(sums)
	intervals := map[string][2]float64{"eval/accuracy": accuracy, "eval/pass@1": pass}
	paths := strings.Join(e.job.Config.Data.ValDataPaths, ", ")
	if asJSON {
		all := map[string]any{"checkpoint": e.from, "task": paths, "questions": e.questions}
		for i, name := range names {
			all[name] = values[i]
			if x, ok := intervals[name]; ok {
				all[name+"_interval"] = x
			}
		}
		return json.NewEncoder(out).Encode(all)
	}
	fmt.Fprintf(out, "%s, %d questions of %s\n", e.from, e.questions, paths)
	for i, name := range names {
		fmt.Fprintf(out, "  %-29s %.4g", name, values[i])
		if x, ok := intervals[name]; ok {
			fmt.Fprintf(out, "  (95 %%: %.4g to %.4g)", x[0], x[1])
		}
		fmt.Fprintln(out)
	}
	for i := range shown {
		fmt.Fprintf(out, "\n%s", shown[i].Block())
	}
	return nil
}
