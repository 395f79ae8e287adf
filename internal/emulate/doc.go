// Package emulate answers: what would a job do on many ranks? It runs the real program on goroutine ranks of this
// machine. The environment and the policy wait in place of computing, and links wait in place of a network. Messages,
// votes, sums and reports are real.
//
// Ranks share few cores here, so the real work of all ranks takes longer than on a cluster. A run stretches all waits
// and links by a factor, and divides its figures by this factor, so that real work counts less. Result.RealWork reports
// the share of real work that is left.
//
//	s := emulate.Setting{Machine: emulate.Machine{PerNode: 8, Between: link}, Job: job, Ranks: 128, Iterations: 10}
//	r, err := emulate.Run(ctx, s)
//	fmt.Println(r.Summary.Median, r.RealWork)
//
// Keys of a Setting may place several members on a rank. These members take turns on the core of the rank.
// Setting.Drift changes costs while the job runs. Setting.Scheduler moves members to other ranks.
//
// Curves runs a Study: weak and strong scaling with and without skew, and compares a Predictor with the measurements.
package emulate
