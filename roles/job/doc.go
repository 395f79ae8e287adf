// Package job answers: what follows from a configuration in a world? A Job is the same on every
// rank, and does not change. It holds the roles of every rank (Plan), the layout of all data that
// travels, the age that rollouts may have, and the memory that all of it takes.
//
// Check and New find all errors and report them as one. NewChecked also checks that the
// environments can do what the configuration asks.
package job
