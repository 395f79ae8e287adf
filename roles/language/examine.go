package language

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

	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/exam"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/task"
)

// examine runs on each rank of a job that evaluates a language model with questions. Each rank answers a share of
// the questions, and rank 0 writes the metrics, which are the same on any number of ranks.
func examine(ctx context.Context, on *task.Evaluation) error {
	on.Phase("loading the model")
	e, err := prepareExam(on)
	if agreed, err := on.Agree(ctx, on, err); !agreed {
		return err
	}
	on.Phase("evaluation")
	e.Progress = on.Progress.Counter()
	rank, size := on.World.Rank(), on.World.Size()
	mine, shown, err := e.Take(ctx, e.plan.ValidationQuestions(rank, size), shownAtEnd)
	if err = errors.Join(err, e.close()); err != nil {
		return err
	}
	all, err := on.GatherRows(ctx, mine)
	if err != nil || rank != 0 {
		return err
	}
	rows, total := make([]float64, size*len(mine)), make([]float64, len(mine))
	if _, err := binary.Decode(all, binary.LittleEndian, rows); err != nil {
		return err
	}
	for i, x := range rows {
		total[i%len(mine)] += x
	}
	on.Progress.Done()
	return e.write(on.Out, total, shown, on.JSON)
}

// An examination has a language model and the questions to ask it.
type examination struct {
	*exam.Exam
	plan      *plan.Plan
	from      string // the model's folder or file
	questions int
	close     func() error
}

// prepareExam reads the model and the questions. Its errors are mistakes of the user.
func prepareExam(on *task.Evaluation) (*examination, error) {
	p, m, from, err := loadExamined(on)
	if err != nil {
		return nil, err
	}
	e := &examination{plan: p, questions: len(p.Valid.Samples), from: from}
	o := p.EngineOptions()
	o.Threads = max(p.Config.Actor.Threads, p.Config.Rollout.Threads)
	en, err := engine.New(m, o)
	if err != nil {
		return nil, err
	}
	grader, err := p.NewGrader(nil)
	if err != nil {
		return nil, err
	}
	e.Exam = p.NewExam(en, grader)
	e.close = func() error {
		en.Close()
		return grader.Close()
	}
	return e, nil
}

// loadExamined returns the plan of the evaluation, the language model, and the folder or file with the model's
// weights. The plan has the requested number of samples.
func loadExamined(on *task.Evaluation) (p *plan.Plan, m *lm.Model, from string, err error) {
	if p, err = plan.ForEvaluation(on.Config, on.Registries); err != nil {
		return nil, nil, "", err
	}
	if n := on.Episodes; n > len(p.Valid.Samples) {
		return nil, nil, "", fmt.Errorf("--episodes %d: expected at most %d, the samples of data.val_data_paths", n,
			len(p.Valid.Samples))
	} else if n > 0 {
		p.Valid.Samples = p.Valid.Samples[:n]
	}
	if m, err = p.Load(on.World.Alloc); err != nil {
		return nil, nil, "", err
	}
	from, weights, err := findTrained(on.Config, &p.Language, on.Checkpoint)
	if err != nil || from == "" {
		return p, m, cmp.Or(p.BaseWeights.Path, p.Base), err
	}
	defer weights.Close()
	if err := job.LoadFile(m.Params, weights); err != nil {
		return nil, nil, "", fmt.Errorf("%s: %w", from, err)
	}
	return p, m, from, nil
}

// findTrained opens the trained tensors of a checkpoint. It takes the first of these: the checkpoint in dir;
// runner.ckpt_path, unless that has the base weights of adapters; the newest checkpoint in the run's folder. If there
// is none, l has all weights, and from is "".
func findTrained(cfg *config.Config, l *plan.Language, dir string) (from string, f *job.TensorFile, err error) {
	newest := loop.Latest(cfg)
	_, missing := os.Stat(newest)
	if missing != nil && dir == "" && (l.BaseWeights.Path != "" || cfg.Runner.CkptPath == "" && l.Base != "") {
		return "", nil, nil
	}
	if missing == nil && dir == "" && l.BaseWeights.Path != "" {
		dir = newest
	}
	return loop.FindModel(cfg, dir)
}

// shownAtEnd is the number of answers written after the metrics.
const shownAtEnd = 3

// write writes the metrics and some answers to out. With asJSON it writes one JSON object with the same names.
func (e *examination) write(out io.Writer, sums []float64, shown []exam.Shown, asJSON bool) error {
	names, values := exam.Metrics(sums)
	accuracy, pass := exam.Intervals(sums)
	intervals := map[string][2]float64{"eval/accuracy": accuracy, "eval/pass@1": pass}
	paths := strings.Join(e.plan.Config.Data.ValDataPaths, ", ")
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
