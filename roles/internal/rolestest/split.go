package rolestest

import "github.com/rlinf/rlinf/roles/planner"

// A split job has 8 ranks, each a node with a core, and as many env workers as rollout workers. Each worker has two
// stages of SplitRows environments.
const (
	splitMembers = 30
	SplitRows    = 4
	SplitEnvs    = splitMembers * 2 * SplitRows
)

// Split returns the layout of a split job with the env workers on the first ranks, this many, and the rollout workers
// on the others.
func Split(first int) planner.Placement {
	l := planner.Placement{Stages: 2}
	for r := range 8 {
		l.Nodes, l.Actor = append(l.Nodes, r), append(l.Actor, r)
	}
	for i := range splitMembers {
		l.Env = append(l.Env, i*first/splitMembers)
		l.Rollout = append(l.Rollout, first+i*(8-first)/splitMembers)
	}
	return l
}

// SplitMachine returns the machine of a split job. The memory of a node has no room for environments beside a copy of
// the policy.
func SplitMachine() *planner.Machine {
	return &planner.Machine{Cores: 1, Nodes: 8, Copy: 1e10, Memory: 1 << 30,
		Network: planner.Link{Latency: 50e-6, PerByte: 1e-10}}
}

// SplitProfile returns the profile of a split job with rollouts of some steps. It has the seconds of a step and of an
// inference of SplitRows environments, and those of an update.
func SplitProfile(steps int, step, infer, update float64) *planner.Profile {
	cost := func(op string, rows int, seconds float64) planner.CallTimes {
		return planner.CallTimes{Op: op, Rows: rows, Seconds: seconds, Busy: seconds}
	}
	return &planner.Profile{
		Work: planner.Workload{Actors: 8, Envs: SplitEnvs, Group: 1, Steps: steps, Epochs: 1,
			Samples: steps * SplitEnvs, WeightsEvery: 1, Staleness: -1, Bytes: planner.Sizes{Observation: 100,
				Action: 10, Trajectory: 2000, Actor: 100 << 20, Rollout: 800 << 20, Simulator: 15 << 19}},
		Costs: []planner.CallTimes{cost(planner.OpStep, SplitRows, step), cost(planner.OpInfer, SplitRows, infer),
			cost(planner.OpUpdate, steps*SplitEnvs/8, update)},
	}
}
