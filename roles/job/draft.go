package job

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlinf/rlinf/collectives"
	"github.com/rlinf/rlinf/roles/config"
	"github.com/rlinf/rlinf/spmd"
)

// New returns the job of cfg in a world whose rank r is on node nodes[r]. The Findings have the mistakes in the keys,
// in the placement and in comm.table. The plan of a task adds further mistakes.
func New(cfg *config.Config, reg config.Registries, nodes []int) (*Job, *config.Findings) {
	j, found := &Job{Config: cfg, Registries: reg}, cfg.CheckParts(reg)
	j.readTable(found)
	j.placeOn(nodes, found)
	for _, of := range config.DeviceComponents {
		if d, n := cfg.Device(of), j.Workers(of); n > 0 {
			found.Want(len(d) <= 1 || len(d) == n, of+".device", d,
				fmt.Sprintf("one value, or as many as %ss: %d", unit(of), n))
		}
	}
	return j, found
}

// readTable reads comm.table, if the configuration names one.
func (j *Job) readTable(found *config.Findings) {
	file := j.Config.Comm.Table
	if file == "" {
		return
	}
	var err error
	j.table, err = collectives.ReadTuningTable(file)
	found.Want(err == nil, "comm.table", nil, fmt.Sprintf("a table that can be read: %v", err))
}

// placeOn sets j.Placement. If the placement does not fit the world, j.Placement stays nil.
func (j *Job) placeOn(nodes []int, found *config.Findings) {
	if found.Reported("cluster.node_groups", "spmd.nodes") {
		return // the placement may fail because of these reported mistakes
	}
	place, err := j.Config.Place(nodes)
	if err == nil {
		j.Placement = place
		return
	}
	for _, e := range unjoin(err) {
		var p *spmd.PlacementError
		if !errors.As(e, &p) {
			found.Problem("cluster.component_placement", nil, "a placement that can be made: "+e.Error())
			continue
		}
		var value any
		if p.Value != "" {
			value = p.Value
		}
		found.Problem(p.Key, value, strings.TrimPrefix(p.Want, "expected "))
	}
}

// unjoin returns the errors that are joined in err.
func unjoin(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	return []error{err}
}

// Workers returns the number of a component's workers, or 0 if j has no placement.
func (j *Job) Workers(component string) int {
	if j.Placement == nil {
		return 0
	}
	return len(j.Placement.Ranks(component))
}

// Moved returns j with the placement of another job that has the same configuration. It returns an error unless both
// jobs have the same components with the same numbers of members. It also returns an error if
// cluster.use_pre_process_policy of a pool is false, and only the other job has a rank with both actors and rollout
// workers.
func (j *Job) Moved(to *Job) (*Job, error) {
	moved := *to
	moved.Registries, moved.table = j.Registries, j.table
	moved.SyncInterval, moved.MaxSteps = j.SyncInterval, j.MaxSteps
	for _, name := range to.Placement.Components() {
		if !j.Placement.Has(name) {
			return nil, fmt.Errorf("the job has no component %s: expected %s", name,
				strings.Join(j.Placement.Components(), ", "))
		}
	}
	for _, name := range j.Placement.Components() {
		if have, want := len(to.Placement.Ranks(name)), len(j.Placement.Ranks(name)); have != want {
			return nil, fmt.Errorf("%s: %d members, expected %d as before: members move, and their number stays", name,
				have, want)
		}
	}
	c := j.Config
	if r := to.sharedRank(); c.Deals() && !c.Cluster.UsePreProcessPolicy && r >= 0 && j.sharedRank() < 0 {
		return nil, fmt.Errorf("rank %d has actors and rollout workers: expected them apart, as now "+
			"(cluster.use_pre_process_policy false)", r)
	}
	return &moved, nil
}

// sharedRank returns a rank with both actors and rollout workers. It returns -1 if there is none.
func (j *Job) sharedRank() int {
	for _, r := range j.Placement.Ranks("rollout") {
		if slices.Contains(j.Placement.Ranks("actor"), r) {
			return r
		}
	}
	return -1
}
