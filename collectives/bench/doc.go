// Package bench measures what ranks do together: collectives, messages, channels, overlap. It is
// what rlinf bench runs.
//
// A Run is one benchmark on one rank. All ranks make the same calls in the same order:
//
//	run, err := bench.Begin(ctx, world, opts)        // surveys the machine; rank 0 writes the header
//	err = run.Collectives(ctx, plan)                 // measures, and rank 0 writes each row as it comes
//	rep, err := run.End(ctx)                         // fits, notes; rank 0 has the report
//
// An arm is the thing that is measured: a call that every rank of a team makes. Arms that are to be
// compared are measured in turns, in blocks:
//
//	refill the buffers → (barrier, call, time) × k → one more call, its result checked → one exchange of all times
//
// A sample is the maximum over the ranks of the time since the barrier. Everything that decides how
// to go on (batch, block, enough?, stop?) follows from numbers that the exchange has made equal on
// all ranks, so that no rank takes a branch of its own.
//
// Package stats has the statistics, package report the rows and the forms in which they are read;
// docs/bench.md explains the method to users.
package bench
