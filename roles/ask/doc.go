// Package ask answers: what did a run do? It repeats a stretch of a run in another folder, from a checkpoint or from
// the run's start, and compares the result with the run. Equal configurations and seeds give equal numbers, in any
// placement, so a stretch that differs was changed, or came from another program.
//
//	run, err := ask.Open(reg, folder)               // reads the folder, and never writes into it
//	err = run.Repeatable()                          // why the numbers of the run cannot repeat
//	stretches, err := run.Stretches()               // from checkpoint to checkpoint
//	folder, err := again.Repeat(ctx, run, stretches[0].From, stretches[0].Until, dir)
//	found, err := ask.Compare(run, folder, stretches[0])
package ask
