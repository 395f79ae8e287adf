package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/rlinf/rlinf/internal/runfolder"
)

// record opens the log file of this process. Rank 0 writes the ranks and the provenance of the run into its folder.
func (r *rank) record(ctx context.Context) error {
	j := r.plan.Common()
	if r.w.Rank() == r.lead {
		r.ending.Store(r.newEnding())
		r.log.open(runfolder.RankLog(j.Config.Folder(), r.lead))
	}
	about := r.w.Describe()
	type member struct {
		runfolder.Rank
		Binding string
	}
	mine, err := json.Marshal(member{runfolder.Rank{Rank: r.w.Rank(), PID: about.PID, Host: about.Host,
		Components: j.WorkersOn(r.w.Rank())}, runfolder.Binding()})
	if err != nil {
		return err
	}
	all, err := r.world.Gather(ctx, mine, 0)
	if err != nil || r.w.Rank() != 0 {
		return err
	}
	if about.Launcher == "" && r.w.Size() > 1 {
		fmt.Fprintf(&r.log, "running without MPI: %d ranks in one process\n", r.w.Size())
	}
	p := runfolder.Describe(os.Getenv("SLURM_JOB_ID"))
	p.Project, p.Resumed, p.Iterations = j.Config.Runner.Logger.ProjectName, r.from.From, plannedSteps(j)
	p.Transport, p.Library, p.Launcher, p.Threads, p.Shared = about.Transport, about.Library, about.Launcher,
		about.Threads, about.Shared
	for _, text := range all {
		var m member
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		r.recorded = append(r.recorded, m.Rank)
		p.Hosts, p.Binding = append(p.Hosts, m.Host), append(p.Binding, m.Binding)
	}
	r.warnBound(j, p.Binding)
	f := r.folder.Load()
	return errors.Join(f.WriteRanks(r.recorded), f.AddProvenance(p))
}
