package planner_test

import (
	"fmt"
	"log"

	"github.com/rlinf/rlinf/roles/planner"
)

// Two ranks on two cores play 64 environments. A step of the simulator waits for 1 ms, and an inference computes. The
// search says where env and rollout workers should run.
func ExampleSearch() {
	link := planner.Link{Latency: 100e-6}
	machine := &planner.Machine{Cores: 2, Nodes: 1, Copy: 1e10, Process: link, SameNode: link, Network: planner.Usual()}
	profile := &planner.Profile{Work: planner.Workload{Actors: 1, Envs: 64, Group: 1, Steps: 32, Epochs: 1,
		Samples:      2048,
		WeightsEvery: 1}}
	for _, rows := range []int{16, 32, 64} {
		infer := 20e-6 * float64(rows)
		profile.Costs = append(profile.Costs,
			planner.CallTimes{Op: planner.OpStep, Rows: rows, Seconds: 1e-3},
			planner.CallTimes{Op: planner.OpInfer, Rows: rows, Seconds: infer, Busy: infer})
	}
	apart := &planner.Placement{Nodes: []int{0, 0}, Actor: []int{0}, Env: []int{0}, Rollout: []int{1}, Stages: 1}
	found, err := planner.Search(machine, profile, planner.SearchSpace{Nodes: []int{0, 0}, Idle: true, Present: apart})
	if err != nil {
		log.Fatal(err)
	}
	best := found.Winner()
	fmt.Println("now: ", apart)
	fmt.Println("best:", best.Layout)
	fmt.Printf("%.0f ms instead of %.0f ms\n", best.Seconds*1e3, found.Present.Seconds*1e3)
	// Output:
	// now:  actor 0, env 0, rollout 1
	// best: actor 0, env 0:0-1, rollout 0:0-1
	// 53 ms instead of 81 ms
}
