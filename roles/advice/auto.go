package advice

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rlinf/rlinf/internal/durable"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/task"
)

// A StartPlan has the layout of a job that plans its placement when it starts. It is written to plan.json in the run's
// folder. If the configuration gives the placement, Found is nil, and the StartPlan serves only a Scheduler.
type StartPlan struct {
	Identity  planner.Identity  `json:"identity"`
	Layout    planner.Placement `json:"layout"`
	Sentences []string          `json:"sentences,omitempty"` // for people
	Found     *planner.Found    `json:"found,omitempty"`
	Machine   *planner.Machine  `json:"machine"`
	Profile   *planner.Profile  `json:"profile"`
}

// Decide measures the machine and the job, and returns the plan.
func (s *Subject) Decide(ctx context.Context, run Runner) (*StartPlan, error) {
	m, err := s.Machine(ctx)
	if err != nil {
		return nil, err
	}
	note, err := s.Fit(m)
	if err != nil {
		return nil, err
	}
	p, err := s.Profile(ctx, m, run)
	if err != nil {
		return nil, err
	}
	f, err := s.Search(m, p)
	if err != nil {
		return nil, err
	}
	sentences := f.Sentences(p)
	if note != "" {
		sentences = slices.Insert(sentences, 0, note)
	}
	return &StartPlan{s.Identity(), f.Winner().Layout, sentences, f, m, p}, nil
}

// Measure measures the machine and the job, and returns the plan that keeps the placement of the configuration.
func (s *Subject) Measure(ctx context.Context, run Runner) (*StartPlan, error) {
	m, err := s.Machine(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.Profile(ctx, m, run)
	if err != nil {
		return nil, err
	}
	return &StartPlan{Identity: s.Identity(), Layout: *s.layout(), Machine: m, Profile: p}, nil
}

// Encode returns the contents of plan.json.
func (p *StartPlan) Encode() ([]byte, error) {
	text, err := json.MarshalIndent(p, "", "  ")
	return append(text, '\n'), err
}

// ReadStartPlan reads the file plan.json of a run.
func ReadStartPlan(path string) (*StartPlan, error) {
	text, err := durable.ReadFile(path, durable.Text)
	if err != nil {
		return nil, err
	}
	p := new(StartPlan)
	if err := json.Unmarshal(durable.WholeNumbers(text), p); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if len(p.Layout.Actor) == 0 || len(p.Layout.Nodes) == 0 || p.Layout.Stages < 1 {
		return nil, fmt.Errorf("%s: expected the plan of a run", path)
	}
	return p, nil
}

// Serves reports whether the subject can use p, a plan of an earlier start. p must be for the same job in the same
// world. If the configuration leaves a placement open, p must be the result of a search.
func (s *Subject) Serves(p *StartPlan) bool {
	if auto, _ := s.Config.Auto(); len(auto) > 0 && p.Found == nil {
		return false
	}
	space := s.Space()
	return p.Identity.Job == s.hash() && space.Allows(&p.Layout)
}

// Provisional returns the plan of a job before its placement is chosen. If a component has the placement auto, the
// whole job is on rank 0. chooser is the subject that chooses the placement. It is nil if the configuration gives all
// placements.
func Provisional(cfg *config.Config, reg config.Registries, tasks task.Tasks, nodes []int) (p *task.Plan,
	chooser *Subject, err error) {
	if auto, _ := cfg.Auto(); len(auto) > 0 {
		if chooser, err = New(cfg, reg, tasks, nodes, false); err != nil {
			return nil, nil, err
		}
		l := chooser.inTurn(nodes)
		placed := chooser.placedBy(&l)
		placed.Rollout.PipelineStageNum, placed.Cluster.AllowIdleRanks = cfg.Rollout.PipelineStageNum, true
		cfg = placed
	}
	p, err = tasks.Plan(cfg, reg, nodes)
	return p, chooser, err
}
