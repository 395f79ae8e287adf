// Package planner answers: where should the components of a job run? It has three nouns.
//
// A Machine says what nodes and links can do. A Profile says what the operations of one job cost: a step of
// environments, an inference, an update. A Prediction says what an iteration takes with one Layout, phase by phase, and
// what bounds each phase. Machine and Profile are files.
//
//	found, err := planner.Search(machine, profile, space)   // the best layouts, best first
//	p := planner.Predict(machine, profile, found.Best().Layout, planner.Steady(profile))
//
// Search compares layouts by a closed form (Estimate), and the best of them by a run in virtual time (Predict). Both
// are pure functions: the same files give the same plan on every machine. The package starts nothing, and asks no
// clock. All times are seconds and all sizes are bytes.
package planner
