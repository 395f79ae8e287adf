// Package checkpoint answers: from which state can a run resume? It saves states of runs, and reads only complete
// checkpoints.
//
// A checkpoint is a folder global_step_N with named files and a manifest.json. The manifest holds the size and the
// checksum of each file, the step, and facts about the run. A Store is a folder of checkpoints:
//
//	store, err := checkpoint.Open(folder+"/checkpoints", 3)             // the newest three are kept
//	last, rejected, err := store.Newest()                               // damaged checkpoints are rejected
//	err = last.CheckConfig(config, resolve, "runner.max_steps", "runner.logger") // the keys that may differ
//	state, err := last.Read("actor")
//	err = store.Rewind(last.Step)                                       // later checkpoints no longer count
//	...
//	_, err = store.Save(checkpoint.Info{Step: step, Ranks: 8, Config: config}, checkpoint.BytesFile("actor", state))
//
// Save writes and syncs the files in a hidden folder, the manifest last. It syncs the folder, renames it, and syncs the
// store. Then it changes the symbolic link "latest", and removes old checkpoints. So after a kill at any time, a full
// disk or a power failure, the newest complete checkpoint is still valid.
//
// Only one process may write to a store at a time; the run folder's lock ensures this.
package checkpoint
