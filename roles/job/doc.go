// Package job answers: what follows from a configuration in a world? A Job is the same on every
// rank, and does not change: who does what (Plan), the layout of everything that travels, how far
// rollouts may lie behind, and how much memory it all takes.
//
// Check and New find everything that is wrong and report it in one error. NewChecked also sees that
// the environments can do what is asked of them.
package job
