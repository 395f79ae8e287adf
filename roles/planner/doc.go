// Package planner answers: where should the components of a job run? It has three nouns.
//
// A Machine has the speeds of nodes and links. A Profile has the costs of one job's operations: a step of environments,
// an inference, an update. A Prediction has the time of an iteration with one Placement, phase by phase, and what
// bounds each phase. Machine and Profile are files.
//
//	found, err := planner.Search(machine, profile, space)   // the best layouts, best first
//	p := planner.Predict(machine, profile, found.Winner().Layout, planner.Steady())
//
// Search first compares all layouts by a closed form (Estimate). It then compares the best of them by runs in virtual
// time (Predict). Both are pure functions: the same files give the same plan on every machine. The package starts no
// programs and reads no clock. All times are seconds and all sizes are bytes.
package planner
