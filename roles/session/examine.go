package session

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/play"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/tensor"
)

// examine is the life of one rank of a job that evaluates a language model. Each rank answers a share
// of the questions, and rank 0 writes the figures: the same on any number of ranks.
func (s *session) examine(ctx context.Context, w *spmd.World, world *collectives.Group, cfg *config.Config) error {
	how := Evaluation{}
	if s.Evaluation != nil {
		how = *s.Evaluation
	}
	e, err := s.prepareExam(w, cfg, how)
	if agreed, err := s.agreeTo(ctx, w, world, err); !agreed {
		return err
	}
	mine, shown, err := e.take(ctx, w.Rank(), w.Size())
	if err = errors.Join(err, e.close()); err != nil {
		return err
	}
	text, err := binary.Append(nil, binary.LittleEndian, mine)
	if err != nil {
		return err
	}
	all, err := world.Gather(ctx, text, 0)
	if err != nil || w.Rank() != 0 {
		return err
	}
	total := make([]float64, len(mine))
	for _, theirs := range all {
		sums := make([]float64, len(mine))
		if err := binary.Read(bytes.NewReader(theirs), binary.LittleEndian, sums); err != nil {
			return err
		}
		for i, x := range sums {
			total[i] += x
		}
	}
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
	j, err := job.NewExamination(cfg, s.reg)
	if err != nil {
		return nil, err
	}
	t := j.Tuning
	e := &examination{job: j, questions: len(t.Valid.Samples), from: cmp.Or(t.Below.Path, t.Base)}
	if n := how.Episodes; n > e.questions {
		return nil, fmt.Errorf("--episodes %d: expected at most %d, the questions of data.val_data_paths", n,
			e.questions)
	} else if n > 0 {
		e.questions = n
	}
	m, err := t.Load(w.Alloc)
	if err != nil {
		return nil, err
	}
	from, weights, err := readLanguageModel(cfg, &t.Language, how.Checkpoint)
	if err != nil {
		return nil, err
	}
	if from != "" {
		if err := job.LoadModel(m.Params, weights); err != nil {
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		e.from = from
	}
	o := t.EngineOptions()
	o.Threads = cfg.Actor.Threads
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

// readLanguageModel returns the trained tensors of a checkpoint: that in dir, else the newest of the
// run's folder, else those of runner.ckpt_path. from is "" where there is none, and l has all weights.
func readLanguageModel(cfg *config.Config, l *job.Language, dir string) (from string, d tensor.Dict, err error) {
	latest := filepath.Join(cfg.Folder(), "checkpoints", "latest")
	_, missing := os.Stat(latest)
	if missing != nil && dir == "" && (l.Below.Path != "" || cfg.Runner.CkptPath == "" && l.Base != "") {
		return "", d, nil
	}
	if missing == nil && dir == "" {
		dir = latest
	}
	return readModel(cfg, dir)
}

// shownAtEnd is how many answers follow the figures.
const shownAtEnd = 3

func (e *examination) take(ctx context.Context, rank, size int) ([]float64, []play.Shown, error) {
	t := *e.job.Tuning
	set := *t.Valid
	set.Samples = set.Samples[:e.questions]
	t.Valid = &set
	return e.Take(ctx, t.ValidationQuestions(rank, size), shownAtEnd)
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
