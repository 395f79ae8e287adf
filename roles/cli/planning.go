package cli

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/rlinf/rlinf/env/external"
	"github.com/rlinf/rlinf/roles/advice"
	"github.com/rlinf/rlinf/roles/cli/args"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/urfave/cli/v2"
)

// A planning finds the plan of a job for each number of ranks. It measures the machine and the job once, unless they
// come from files.
type planning struct {
	c       *cli.Context
	cfg     *config.Config
	reg     config.Registries
	tasks   task.Tasks
	asked   *loop.Requests
	machine *planner.Machine
	profile *planner.Profile
	given   bool // the profile comes from a file
}

// newPlanning reads the files of --profile and --machine.
func newPlanning(c *cli.Context, cfg *config.Config, reg config.Registries, tasks task.Tasks, hub *external.Hub,
	asked *loop.Requests) (*planning, error) {
	if !cfg.Trains() {
		return nil, config.Usagef("plan: the job only evaluates: expected one that trains")
	}
	m, p, err := planFiles(c)
	if err == nil && p == nil {
		cfg, err = session.Measurable(hub, cfg)
	}
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	return &planning{c, cfg, reg, tasks, asked, m, p, p != nil}, nil
}

// onRanks returns the plan of the job in a world with this many ranks.
func (x *planning) onRanks(ranks int) (*plannedJob, error) {
	cfg := x.cfg
	nodes := max(cfg.SPMD.Nodes, cfg.Cluster.NumNodes, 1)
	if x.machine != nil {
		nodes = max(nodes, x.machine.Nodes)
	}
	s, err := advice.New(cfg, x.reg, x.tasks, args.SpreadNodes(ranks, min(nodes, ranks)), true)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	ctx, end := session.UntilStop(x.c.Context, x.asked)
	defer end()
	note, err := x.measure(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := s.Search(x.machine, x.profile)
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	j := &plannedJob{Found: found, Ranks: ranks, Sentences: found.Sentences(x.profile),
		Whole: wholeJob(cfg, x.machine, &x.profile.Work, found.Winner()), Machine: x.machine, Profile: x.profile,
		note: note}
	if note != "" {
		j.Sentences = slices.Insert(j.Sentences, 0, note)
	}
	if !found.KeepsPresent() {
		j.YAML = s.YAML(&found.Winner().Layout)
	}
	return j, nil
}

// measure measures the machine and the operations of the job, as far as they are unknown. If Subject.Fit reduces the
// actors' replicas for lack of memory, note says so.
func (x *planning) measure(ctx context.Context, s *advice.Subject) (note string, err error) {
	described := x.machine != nil && x.machine.Host == ""
	progress, stop := args.Progress(x.c, "measuring the machine")
	defer stop()
	if x.machine == nil {
		if x.machine, err = s.Machine(ctx); err != nil {
			return "", err
		}
		if x.machine.Disk, err = s.Disk(); err != nil {
			return "", err
		}
	}
	if note, err = s.Fit(x.machine); err != nil {
		return "", err
	}
	if x.profile != nil {
		err := x.profile.Fits(s.Identity(), described)
		if err == nil || x.given {
			if err != nil && note != "" {
				err = fmt.Errorf("%w (%s)", err, note)
			}
			if err != nil {
				err = config.UsageError{Err: err}
			}
			return note, err
		}
	}
	progress.Phase("measuring the job's operations")
	x.profile, err = s.Profile(ctx, x.machine, session.Try(x.reg, x.tasks, x.asked))
	return note, err
}

// wholeJob returns the cost of all iterations, evaluations and checkpoints of a job; nil if their number is unknown.
func wholeJob(cfg *config.Config, m *planner.Machine, w *planner.Workload, x *planner.Prediction) *planner.Bill {
	r := &cfg.Runner
	n := planner.Length{Iterations: r.Steps(max(1, w.StepsPerEpoch))}
	if n.Iterations < 1 || n.Iterations == math.MaxInt64 {
		return nil
	}
	if every := int64(r.ValCheckInterval); cfg.Evaluates() && every > 0 {
		e := &cfg.Env.Eval
		n.Evaluations = (n.Iterations + every - 1) / every
		n.EvalSteps = e.TotalNumEnvs * e.MaxStepsPerRolloutEpoch * e.RolloutEpoch
	}
	if every := int64(r.SaveInterval); every > 0 {
		n.Checkpoints = (n.Iterations + every - 1) / every
	} else if r.SaveAtEnd {
		n.Checkpoints = 1
	}
	b := x.Bill(m, w, n)
	return &b
}

// planFiles reads the files of --profile and --machine. If both files have a machine, planFiles returns the machine of
// --machine.
func planFiles(c *cli.Context) (m *planner.Machine, p *planner.Profile, err error) {
	if file := c.String("profile"); file != "" {
		if m, p, err = planner.Read(file); err != nil {
			return nil, nil, err
		}
		if p == nil {
			return nil, nil, fmt.Errorf("--profile %s: it has no profile", file)
		}
	}
	if file := c.String("machine"); file != "" {
		of, _, err := planner.Read(file)
		if err != nil {
			return nil, nil, err
		}
		if of == nil {
			return nil, nil, fmt.Errorf("--machine %s: it has no machine", file)
		}
		m = of
		m.Host = "" // the file may describe a different machine
	}
	return m, p, nil
}
