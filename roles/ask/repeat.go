package ask

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/internal/checkpoint"
	"github.com/rlinf/rlinf/internal/metrics"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/roles/session"
	"github.com/rlinf/rlinf/roles/task"
	"github.com/rlinf/rlinf/spmd"
	"github.com/rlinf/rlinf/spmd/local"
)

// An Again repeats stretches of runs.
type Again struct {
	Registries config.Registries
	Tasks      task.Tasks
	Own        session.UserProgram
	Asked      *loop.Requests     // requests to stop
	Witness    loop.MemberWitness // may be nil
	// Change changes the configuration of the repeated run; may be nil.
	Change func(*config.Config)
}

// A Repeated is the folder of a repeated stretch.
type Repeated struct {
	Dir   string
	Place string // its placement, as in cluster.component_placement
}

// Repeat repeats a stretch of a run. It writes the folder of the repeated run into dir, which exists. First it copies
// the checkpoint from which the stretch begins, because a run that goes on may remove it.
func (a *Again) Repeat(ctx context.Context, r *Run, s Stretch, dir string) (*Repeated, error) {
	again, err := a.repeat(ctx, r, s, dir)
	if err != nil {
		return nil, fmt.Errorf("repeat %v of %s: %w", s, r.Dir, err)
	}
	return again, nil
}

func (a *Again) repeat(ctx context.Context, r *Run, s Stretch, dir string) (*Repeated, error) {
	cfg, err := r.configOf(s)
	if err != nil {
		return nil, err
	}
	from := ""
	if s.From.Checkpoint != nil {
		if from, err = Keep(s.From.Checkpoint, dir); err != nil {
			return nil, err
		}
	}
	runner := &cfg.Runner
	runner.Logger.LogPath, runner.Logger.ExperimentName = dir, "repeated"
	runner.Logger.LoggerBackends, runner.KeepCheckpoints, runner.MaxTime = nil, 2, 0
	cfg.Env.Eval.VideoCfg.SaveVideo, cfg.Cluster.Tracer.Record, cfg.Cluster.Tracer.Enable = false, false, false
	cfg.Env.Train.DataCollection.Enabled, cfg.Env.Eval.DataCollection.Enabled = false, false
	if a.Change != nil {
		a.Change(cfg)
	}
	cfg, ranks, err := a.place(cfg, r)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	one := session.New(session.Options{Registries: a.Registries, Tasks: a.Tasks, Own: a.Own, Resume: from,
		Asked: a.Asked, Out: io.Discard, Log: &said, Until: s.Until, Witness: a.Witness})
	code, err := one.Start(ctx, local.New(ranks), cfg, nil, nil)
	if err == nil && code != loop.ExitOK {
		err = errors.New(strings.TrimSpace(said.String()))
	}
	return &Repeated{filepath.Join(dir, "repeated"), cfg.PlacementText()}, err
}

// configOf returns the configuration with which the run made a stretch. A resume may have changed it since.
func (r *Run) configOf(s Stretch) (*config.Config, error) {
	if s.Config == nil {
		return config.Parse(r.reg, r.Config.Record())
	}
	text, err := s.Config.Read("config.yaml")
	if err != nil {
		return nil, err
	}
	return config.Parse(r.reg, text)
}

// Keep copies a checkpoint into the subfolder "from" of dir, and returns the path of the copy. It makes hard links
// where the file system can.
func Keep(c *checkpoint.Checkpoint, dir string) (string, error) {
	to := filepath.Join(dir, "from", filepath.Base(c.Dir))
	if err := os.MkdirAll(to, 0o777); err != nil {
		return "", err
	}
	for _, name := range append(c.Files(), "manifest.json") {
		if err := os.Link(filepath.Join(c.Dir, name), filepath.Join(to, name)); err != nil { // another file system
			if err := os.RemoveAll(to); err != nil {
				return "", err
			}
			return to, os.CopyFS(to, os.DirFS(c.Dir))
		}
	}
	return to, nil
}

// place returns cfg with another placement than the run's, and the number of its ranks. All members are on one rank. If
// the run itself had one rank, the environments are on a second rank. The numbers of members stay the same. If the job
// does not allow this placement, place returns that of the run.
func (a *Again) place(cfg *config.Config, r *Run) (*config.Config, int, error) {
	ranks := 1
	if r.Ranks == 1 {
		ranks = 2
	}
	other := spmd.Components{NumNodes: 1, AllowIdleRanks: true}
	for _, component := range slices.Sorted(maps.Keys(r.Members)) {
		members := make([]int, r.Members[component])
		for i := range members {
			if component == "env" {
				members[i] = ranks - 1
			}
		}
		other.Components = append(other.Components, spmd.ComponentPlacement{Key: component,
			Placement: spmd.PlacementOf(members)})
	}
	nodes := make([]int, ranks)
	if place, err := spmd.Place(other, nodes); err == nil {
		at := cfg.At(place)
		at.Cluster.NumNodes, at.Cluster.NodeGroups, at.SPMD.Nodes = 1, nil, 0
		if a.Tasks.Of(at).Draft(at, a.Registries, nodes).Mistakes() == nil {
			return at, ranks, nil
		}
	}
	return cfg, r.Ranks, nil
}

// Compare returns what differs between a run and its repeated stretch: metrics by step, and tensors of the checkpoint
// at the end of the stretch.
func Compare(r *Run, again *Repeated, s Stretch) (found []metrics.Difference, tensors []checkpoint.TensorDifference,
	err error) {
	for _, name := range []string{"metrics.jsonl", "generation.jsonl"} {
		more, err := compareMetrics(r.Dir, again.Dir, name, s.From.Step+1, s.Until)
		if err != nil {
			return nil, nil, err
		}
		found = append(found, more...)
	}
	if s.End == nil {
		return found, nil, nil
	}
	end, err := checkpoint.Load(filepath.Join(again.Dir, "checkpoints", filepath.Base(s.End.Dir)))
	if err != nil {
		return nil, nil, err
	}
	tensors, err = checkpoint.Compare(s.End, end)
	return found, tensors, err
}
