// Package bench measures operations of several ranks: collectives, messages, channels, overlap. The command rlinf bench
// runs it.
//
// A Run is one benchmark on one rank. All ranks make the same calls in the same order:
//
//	run, err := bench.Begin(ctx, world, opts)        // surveys the machine
//	err = run.Measure(ctx, plan)                     // rank 0 writes the header, then each row
//	rep, err := run.End(err == nil)                  // rank 0 writes fits and notes, and gets the report
//
// An arm is one thing to measure: a call that every rank of a team makes. A schedule samples the arms in blocks, and
// the blocks of arms that are compared alternate. A block is:
//
//	refill the buffers → (barrier, call, time) × k → one more call, its result checked → one exchange of all times
//
// A sample is the time since the barrier, the maximum over the ranks. Batch size, block size and the end of sampling
// follow from numbers that the exchange has made equal on all ranks, so all ranks take the same branches.
//
// Package stats has the statistics. Package report has the rows and their output forms.
// docs/bench.md explains the method to users.
package bench
