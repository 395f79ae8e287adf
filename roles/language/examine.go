package language

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/rlinf/rlinf/algo"
	"github.com/rlinf/rlinf/policy/lm"
	"github.com/rlinf/rlinf/policy/lm/engine"
	"github.com/rlinf/rlinf/reward/answer"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/language/exam"
	"github.com/rlinf/rlinf/roles/language/plan"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/member"
	"github.com/rlinf/rlinf/roles/mesh"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
)

// examine runs on each rank of a job that evaluates a language model with questions. Each copy of the model answers a
// share of the questions, and rank 0 writes the metrics. The metrics are the same for any number of ranks.
func examine(ctx context.Context, on *task.Evaluation) error {
	var judge answer.JudgeProgram
	x, agreed, err := load(ctx, on, func(e *examinee) (err error) {
		o := e.plan.EngineOptions()
		o.Threads, o.Axis = max(e.plan.Config.Actor.Threads, e.plan.Config.Rollout.Threads), e.line
		en, err := engine.New(e.model, o)
		if err != nil {
			return err
		}
		grader, err := e.plan.NewGrader(&judge)
		if err != nil {
			return err
		}
		e.exam = e.plan.NewExam(en, grader)
		e.exam.Progress = e.progress
		return nil
	})
	if !agreed {
		return err
	}
	sums, err := shares(ctx, on, x, "examine", takeExam)
	if err != nil || on.World.Rank() != 0 {
		return err
	}
	first := x.group.Here()[0]
	total := make([]float64, len(sums)/first.copies)
	for i, n := range sums {
		total[i%len(total)] += n
	}
	on.Progress.Done()
	names, values := exam.Metrics(total)
	accuracy, pass := exam.Intervals(total)
	err = on.Write(&task.Results{From: x.from, Task: strings.Join(x.plan.Config.Data.ValDataPaths, ", "),
		Unit: "questions", Count: len(x.plan.Valid.Samples), Names: names, Values: values,
		Intervals: map[string][2]float64{"eval/accuracy": accuracy, "eval/pass@1": pass}, Width: 29})
	if on.JSON {
		return err
	}
	for i := range first.shown {
		fmt.Fprintf(on.Out, "\n%s", first.shown[i].Block())
	}
	return err
}

// takeExam lets e's copy of the model answer its share of the questions. It returns the sums for exam.Metrics.
func takeExam(ctx context.Context, e *examinee) (sums []float64, err error) {
	sums, e.shown, err = e.exam.Take(ctx, e.plan.ValidationQuestions(e.copy, e.copies), shownAtEnd)
	e.exam.Engine.Close()
	return sums, errors.Join(err, e.exam.Grader.Close())
}

// An examinee is a copy of the evaluated language model, or a member's part of a copy. Each copy evaluates a share of
// the samples.
type examinee struct {
	plan         *plan.Plan
	model        *lm.Model
	line         *member.AxisGroup // connects the members of this copy
	copy, copies int               // the index of this copy, and the number of copies
	progress     algo.Progress
	exam         *exam.Exam   // nil if there are no questions
	shown        []exam.Shown // some answers of the last exam
	wrong        error        // a mistake of the user; nil if there is none
}

// An examination has all examinees, and the plan of the evaluation.
type examination struct {
	plan  *plan.Plan
	group *spmd.Group[*examinee]
	from  string // folder or file of the model
}

// load makes the examinees on all ranks, and calls prepare for each of them. An error of prepare is a mistake of the
// user. If any rank finds a mistake, agreed is false on all ranks, and rank 0 has written the mistake.
func load(ctx context.Context, on *task.Evaluation, prepare func(*examinee) error) (x examination, agreed bool,
	err error) {
	on.Phase("loading the model")
	var trained *job.ModelTensors
	if on.Record.File != "" {
		err = fmt.Errorf("--record %s: expected the policy of a job with environments", on.Record.File)
	} else {
		x.plan, err = planEvaluation(on)
	}
	if err == nil {
		x.from, trained, err = openModel(on.Config, &x.plan.Language, on.Checkpoint)
	}
	if trained != nil {
		defer trained.Close()
	}
	if agreed, err = on.Agree(ctx, err); !agreed {
		return x, false, err
	}
	size := x.plan.Mesh(x.plan.Examined()).Tensor
	x.group, err = member.Divide(ctx, on.World, x.plan.Job, size,
		func(m *spmd.Member, line *member.AxisGroup) (*examinee,
			error) {
			e := &examinee{plan: x.plan, line: line, copy: m.Coordinate(mesh.Replica), copies: m.Size() / size}
			if m.Index() == 0 {
				e.progress = on.Progress.Counter()
			}
			e.model, e.wrong = x.plan.LoadPart(lm.Shard{Index: line.Index(), Size: size}, on.World.Alloc, nil)
			if e.wrong == nil && trained != nil {
				if err := trained.Load(e.model.Params, e.model.Whole().Params); err != nil {
					e.wrong = fmt.Errorf("%s: %w", x.from, err)
				}
			}
			if e.wrong == nil {
				e.wrong = prepare(e)
			}
			return e, nil
		})
	if err != nil {
		return x, false, err
	}
	for _, e := range x.group.Here() {
		if err == nil {
			err = e.wrong
		}
	}
	if agreed, err = on.Agree(ctx, err); agreed {
		on.Phase("evaluation")
	}
	return x, agreed, err
}

// shares calls the function evaluate for all examinees. On rank 0 it returns the rows of all copies of the model, in
// the order of the copies.
func shares[R any](ctx context.Context, on *task.Evaluation, x examination, what string,
	evaluate func(context.Context, *examinee) ([]R, error)) ([]R, error) {
	results, err := spmd.Call(x.group, ctx, what, evaluate).Wait(ctx)
	if err != nil {
		return nil, err
	}
	var rows []R
	for i, e := range x.group.Here() {
		if e.line.Index() == 0 { // all members of a copy return the same rows
			rows = append(rows, results[i].Value...)
		}
	}
	all, err := on.GatherRows(ctx, rows)
	if err != nil || on.World.Rank() != 0 {
		return nil, err
	}
	rows = make([]R, len(all)/binary.Size(*new(R)))
	_, err = binary.Decode(all, binary.LittleEndian, rows)
	return rows, err
}

// planEvaluation returns the plan of the evaluation, with the requested number of samples.
func planEvaluation(on *task.Evaluation) (*plan.Plan, error) {
	p, err := plan.ForEvaluation(on.Config, on.Registries)
	if err != nil {
		return nil, err
	}
	if n := on.Episodes; n > len(p.Valid.Samples) {
		return nil, fmt.Errorf("--episodes %d: expected at most %d, the samples of data.val_data_paths", n,
			len(p.Valid.Samples))
	} else if n > 0 {
		p.Valid.Samples = p.Valid.Samples[:n]
	}
	return p, nil
}

// openModel opens the file of the trained tensors. path is their folder or file. openModel takes the first of these
// that exists: the checkpoint in dir, the file runner.ckpt_path (unless it has the base weights of adapters), the
// newest checkpoint of the run. If there are no trained tensors, f is nil, and path is the folder or file of l's
// weights.
func openModel(cfg *config.Config, l *plan.Language, dir string) (path string, f *job.ModelTensors, err error) {
	newest := loop.Latest(cfg)
	_, missing := os.Stat(newest)
	if missing != nil && dir == "" && (l.BaseWeights.Path != "" || cfg.Runner.CkptPath == "" && l.Base != "") {
		return cmp.Or(l.BaseWeights.Path, l.Base), nil, nil
	}
	if missing == nil && dir == "" && l.BaseWeights.Path != "" {
		dir = newest
	}
	return loop.FindModel(cfg, dir)
}

// shownAtEnd is the number of answers that are written after the metrics.
const shownAtEnd = 3
