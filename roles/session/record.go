package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/internal/runfolder"
	"github.com/rlinf/rlinf/roles/job"
	"github.com/rlinf/rlinf/roles/loop"
	"github.com/rlinf/rlinf/spmd"
)

// record starts this process's log, and records on rank 0 what runs, where and how. There it returns the ranks.
func (s *session) record(ctx context.Context, w *spmd.World, world *collectives.Group, j *job.Job,
	from loop.StartState) ([]runfolder.Rank, error) {
	if w.Rank() == s.lead {
		s.ending.Store(s.newEnding(w, j))
		s.log.open(runfolder.RankLog(j.Config.Folder(), w.Rank()))
	}
	about := w.Describe()
	type member struct {
		runfolder.Rank
		Binding string
	}
	mine, err := json.Marshal(member{runfolder.Rank{Rank: w.Rank(), PID: about.PID, Host: about.Host,
		Components: j.WorkersOn(w.Rank())}, runfolder.Binding()})
	if err != nil {
		return nil, err
	}
	all, err := world.Gather(ctx, mine, 0)
	if err != nil || w.Rank() != 0 {
		return nil, err
	}
	if about.Launcher == "" && w.Size() > 1 {
		fmt.Fprintf(&s.log, "running without MPI: %d ranks in one process\n", w.Size())
	}
	p := runfolder.Describe(os.Getenv("SLURM_JOB_ID"))
	p.Project, p.Resumed, p.Iterations = j.Config.Runner.Logger.ProjectName, from.From, plannedSteps(j)
	p.Transport, p.Library, p.Launcher, p.Threads, p.Shared = about.Transport, about.Library, about.Launcher,
		about.Threads, about.Shared
	ranks := make([]runfolder.Rank, len(all))
	for r, text := range all {
		var m member
		if err := json.Unmarshal(text, &m); err != nil {
			return nil, err
		}
		ranks[r] = m.Rank
		p.Hosts, p.Binding = append(p.Hosts, m.Host), append(p.Binding, m.Binding)
	}
	s.warnBound(j, p.Binding)
	f := s.folder.Load()
	return ranks, errors.Join(f.WriteRanks(ranks), f.AddProvenance(p))
}
