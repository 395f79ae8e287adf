// Package checkpoint keeps the states from which a run can go on, and only whole ones.
//
// A checkpoint is a folder global_step_N of named files with a manifest.json, which holds the size
// and checksum of each file, the step, and what the run was. A Store is the folder of them:
//
//	store, err := checkpoint.Open(folder+"/checkpoints", 3)             // the newest three are kept
//	last, rejected, err := store.Newest()                               // damaged ones are rejected with a reason
//	err = last.CheckConfig(config, resolve, "runner.max_steps", "runner.logger") // the keys that may differ
//	state, err := last.Read("actor")
//	err = store.Rewind(last.Step)                                       // this run's future starts here
//	...
//	_, err = store.Save(checkpoint.Info{Step: step, Ranks: 8, Config: config}, checkpoint.BytesFile("actor", state))
//
// Save writes a hidden folder, syncs every file, the manifest last, and the folder itself, renames
// it, and syncs the store; then the symbolic link latest moves, and what is older than the newest
// that are kept goes away. A process that is killed at any instant, a full disk or a lost power
// supply therefore leave a store whose newest complete checkpoint verifies.
//
// One process at a time writes a store; the run folder's lock sees to that.
package checkpoint
