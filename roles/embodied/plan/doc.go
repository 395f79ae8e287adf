// Package plan answers: what follows from the configuration of a job with environments in a world? A Plan has the
// workers of every rank and the environments that they share (Routing), the layouts of all data between workers,
// the bound on the age of rollouts, and the memory that each rank needs (MemoryOf).
//
// Draft finds mistakes without making anything. Complete makes an environment of each kind and a policy, and finds
// the remaining mistakes. Each reports all its mistakes as one error.
package plan
