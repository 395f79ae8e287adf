package advice

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/rlinf/rlinf/internal/checkpoint"
	yaml "github.com/rlinf/rlinf/internal/config"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/planner"
	"github.com/rlinf/rlinf/roles/planner/probe"
)

// Budget is the approximate time of a job's measurement. One call of a slow job may take longer.
const Budget = 15 * time.Second

// Machine measures this machine. All nodes of the subject's world are assumed to be equal to it.
func (s *Subject) Machine(ctx context.Context) (*planner.Machine, error) {
	nodes := s.Nodes[len(s.Nodes)-1] + 1
	free := job.AvailableOn(s.Nodes, 0).Free
	m, err := probe.Machine(ctx, s.Identity().Build, nodes, free*9/10)
	if err == nil && s.Measured != nil && s.Measured.network != nil {
		m.Network = *s.Measured.network
	}
	return m, err
}

// Disk measures how long checkpoints take to write. It writes into the folder of runs, or into the nearest folder above
// it that exists, and removes what it has written. Only the cost of a whole job needs this, so a job that plans its
// placement at its start does not call Disk.
func (s *Subject) Disk() (l planner.Link, err error) {
	dir := s.Config.Runner.Logger.LogPath
	for dir = filepath.Clean(dir); dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
	}
	temp, err := os.MkdirTemp(dir, ".rlinf-plan-")
	if err != nil {
		return l, nil // a folder without write permission: the time is unknown
	}
	defer os.RemoveAll(temp)
	store, err := checkpoint.Open(temp, 0)
	if err != nil {
		return l, err
	}
	var took [2]float64
	const files, size = 4, 4 << 20
	for i := range took {
		var all []checkpoint.File
		for n := range files {
			all = append(all, checkpoint.BytesFile(fmt.Sprint(n), make([]byte, i*size)))
		}
		start := time.Now()
		if _, err := store.Save(checkpoint.Info{Step: int64(i), Config: []byte("{}\n")}, all...); err != nil {
			return l, err
		}
		took[i] = time.Since(start).Seconds()
	}
	return planner.Link{Latency: took[0], PerByte: max(0, took[1]-took[0]) / (files * size)}, nil
}

// Profile measures what the job's operations cost on this machine. If the memory has room for all actors, a few real
// iterations then correct these costs.
func (s *Subject) Profile(ctx context.Context, m *planner.Machine, run Runner) (*planner.Profile, error) {
	l := s.inTurn([]int{0})
	p, err := s.Tasks.Plan(s.onRanks(&l), s.Registries, []int{0})
	if err != nil {
		return nil, config.UsageError{Err: err}
	}
	room := job.AvailableOn(s.Nodes, 0)
	full := p.CheckMemory([]int{0}, 0, room)
	if len(yaml.FieldErrors(full)) > 0 { // the job needs a device that this machine lacks
		return nil, config.UsageError{Err: full}
	}
	cores := runtime.NumCPU()
	f, err := p.Profile(ctx, planner.ProbeOptions{Ranks: len(s.Nodes), World: worldLike(s.Nodes, cores), Cores: cores,
		Budget: Budget, Room: room.Free})
	if err != nil {
		return nil, fmt.Errorf("measure the job: %w", err)
	}
	id := s.Identity()
	f.Build, f.Host, f.Job, f.Name = id.Build, id.Host, id.Job, s.Config.Runner.Logger.ExperimentName
	if full != nil {
		return f, context.Cause(ctx)
	}
	return f, s.Correct(ctx, m, f, run)
}

// Search finds the best layouts for the subject.
func (s *Subject) Search(m *planner.Machine, p *planner.Profile) (*planner.Found, error) {
	if p.Work.Actors != s.actors {
		return nil, fmt.Errorf("the profile is of a job with %d actors, and this one has %d", p.Work.Actors, s.actors)
	}
	return planner.Search(m, p, s.Space())
}

// Resolve returns the configuration with the placement of a layout.
func (s *Subject) Resolve(l *planner.Placement) *config.Config { return s.placedBy(l) }
