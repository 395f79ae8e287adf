package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// planFlags returns the flags of rlinf plan, in addition to the flags of the configuration.
func planFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "profile", Usage: "read what the job's operations cost from `FILE`, and measure nothing"},
		&cli.StringFlag{Name: "machine", Usage: "plan for the machine in `FILE`: its cores, nodes and links"},
		args.Int(cli.IntFlag{Name: "ranks", Usage: "plan for `N` ranks",
			DefaultText: "those of the placement"}, 1, config.MaxRanks),
		&cli.StringFlag{Name: "save-profile", Usage: "write what was measured to `FILE`"},
		args.Force(),
		&cli.BoolFlag{Name: "json", Usage: "write the plan as a JSON object"},
	}
}

const planUsage = `rlinf plan -c FILE.yaml [key=value ...]
   rlinf plan -c FILE.yaml --save-profile job.json
   rlinf plan -c FILE.yaml --profile job.json --machine cluster.json --ranks 64`

// A plannedJob is the result of rlinf plan as JSON.
type plannedJob struct {
	*planner.Found
	Sentences []string         `json:"sentences"`
	YAML      string           `json:"yaml"`            // empty if the present placement stays
	Whole     *planner.Bill    `json:"whole,omitempty"` // left out if only a time limit ends the job
	Machine   *planner.Machine `json:"machine"`
	Profile   *planner.Profile `json:"profile"`
}

// isProfile reports whether a file begins as one of planner.Write.
func isProfile(head []byte) bool { return args.Begins(`\{\n  "(machine|profile)": \{\n`)(head) }

// runPlan measures a job, searches for its best placement, and explains it. It returns the exit code of a request to
// stop that ended the measurement.
func runPlan(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub) (stop int, _ error) {
	return stoppable(c, hub, func(asked *loop.Requests) error { return plan(c, reg, tasks, hub, asked) })
}

// stoppable calls f, which may wait for simulators. If a request to stop ends f, stoppable returns its exit code.
func stoppable(c *cli.Context, hub *external.Hub, f func(asked *loop.Requests) error) (stop int, _ error) {
	asked := loop.Watch()
	defer asked.Close()
	asked.Expire(0) // stop before the end of a Slurm job
	defer asked.AtStop(hub.RequestStop)()
	err := f(asked)
	if errors.Is(err, external.ErrStopRequested) {
		fmt.Fprintln(c.App.ErrWriter, err)
		stop, _ = asked.Vote()
		return stop, nil
	}
	return 0, err
}

func plan(c *cli.Context, reg config.Registries, tasks task.Tasks, hub *external.Hub, asked *loop.Requests) error {
	cfg, err := args.Config(c, reg, c.App.ErrWriter)
	if err != nil {
		return err
	}
	if !cfg.Trains() {
		return config.Usagef("plan: the job only evaluates: expected one that trains")
	}
	asked.Expire(cfg.Runner.MaxTime)
	defer asked.AtStop(hub.RequestStop)()
	if out := c.String("save-profile"); out != "" {
		if err := args.CheckOut(c, "save-profile", out, isProfile); err != nil {
			return err
		}
	}
	m, p, err := planFiles(c)
	if err != nil {
		return config.UsageError{Err: err}
	}
	if p == nil {
		if cfg, err = session.Measurable(hub, cfg); err != nil {
			return config.UsageError{Err: err}
		}
	}
	ranks, err := args.LocalRanks(c, cfg)
	if err != nil {
		return err
	}
	if c.IsSet("ranks") {
		ranks = c.Int("ranks")
	}
	nodes := max(cfg.SPMD.Nodes, cfg.Cluster.NumNodes, 1)
	if m != nil {
		nodes = m.Nodes
	}
	s, err := advice.New(cfg, reg, tasks, args.SpreadNodes(ranks, min(nodes, ranks)), true)
	if err != nil {
		return config.UsageError{Err: err}
	}
	ctx, end := session.UntilStop(c.Context, asked)
	defer end()
	note, m, p, err := measureJob(ctx, c, s, m, p, session.Try(reg, tasks, asked))
	if err != nil {
		return err
	}
	if out := c.String("save-profile"); out != "" {
		if err := planner.Write(out, m, p); err != nil {
			return err
		}
	}
	found, err := s.Search(m, p)
	if err != nil {
		return config.UsageError{Err: err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	yaml := ""
	if !found.KeepsPresent() {
		yaml = s.YAML(&found.Winner().Layout)
	}
	whole := wholeJob(cfg, found.Winner(), &p.Work)
	if c.Bool("json") {
		sentences := found.Sentences(p)
		if note != "" {
			sentences = slices.Insert(sentences, 0, note)
		}
		return json.NewEncoder(c.App.Writer).Encode(plannedJob{found, sentences, yaml, whole, m, p})
	}
	if note != "" {
		fmt.Fprintf(c.App.Writer, "%s\n\n", note)
	}
	if err := found.Explain(c.App.Writer, m, p); err != nil {
		return err
	}
	if whole != nil {
		fmt.Fprintln(c.App.Writer, whole)
	}
	if yaml == "" {
		return nil
	}
	_, err = fmt.Fprintf(c.App.Writer, "\n%s", yaml)
	return err
}

// wholeJob returns the cost of all iterations and evaluations of a job; nil if their number is unknown.
func wholeJob(cfg *config.Config, x *planner.Prediction, w *planner.Work) *planner.Bill {
	iterations, evaluations, steps := int64(cfg.Runner.Iterations()), int64(0), 0
	if iterations < 1 || !cfg.EpochIsIteration() {
		return nil
	}
	if cfg.Evaluates() {
		every, e := int64(cfg.Runner.ValCheckInterval), &cfg.Env.Eval
		evaluations = (iterations + every - 1) / every
		steps = e.TotalNumEnvs * e.MaxStepsPerRolloutEpoch * e.RolloutEpoch
	}
	b := x.Bill(w, iterations, evaluations, steps)
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

// measureJob measures the machine and the operations of the job, unless they come from files. If Subject.Fit reduces
// the actors' replicas for lack of memory, note says so.
func measureJob(ctx context.Context, c *cli.Context, s *advice.Subject, m *planner.Machine, p *planner.Profile,
	run advice.Runner) (note string, _ *planner.Machine, _ *planner.Profile, err error) {
	described := m != nil && m.Host == ""
	progress, stop := args.Progress(c, "measuring the machine")
	defer stop()
	if m == nil {
		if m, err = s.Machine(ctx); err != nil {
			return "", nil, nil, err
		}
	}
	if note, err = s.Fit(m); err != nil {
		return "", nil, nil, err
	}
	if p != nil {
		err := p.Fits(s.Identity(), described)
		if err != nil && note != "" {
			err = fmt.Errorf("%w (%s)", err, note)
		}
		if err != nil {
			return "", nil, nil, config.UsageError{Err: err}
		}
		return note, m, p, nil
	}
	progress.Phase("measuring the job's operations")
	p, err = s.Profile(ctx, m, run)
	return note, m, p, err
}
