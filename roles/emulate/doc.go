// Package emulate answers: what would a job do on many ranks? It runs the real program on goroutine ranks of this
// machine. In place of computing, the environment and the policy wait. In place of a network, links wait. Messages,
// votes, sums and reports are real.
//
// Ranks share few cores here, so the real work of all ranks takes longer than on a cluster. To reduce the effect of
// real work, a run stretches all waits and links by a factor, and divides its measured times by this factor.
// Result.RealWork reports the remaining share of real work.
//
//	s := emulate.Setting{Machine: emulate.Topology{PerNode: 8, Between: link}, Load: load, Ranks: 128, Iterations: 10}
//	r, err := emulate.Run(ctx, s)
//	fmt.Println(r.Summary.Median, r.RealWork)
//
// Setting.Keys can place several members on a rank. These members take turns on the core of the rank. Setting.Drift
// changes costs while the job runs. Setting.Scheduler moves members to other ranks.
//
// Curves runs a Study of weak and strong scaling, and compares predictions of package planner with the measurements.
package emulate
