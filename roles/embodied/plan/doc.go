// Package plan answers: which workers run in a job with environments, and what do they exchange? A Plan is derived from
// a configuration and the ranks of a world. It has the workers of every rank and the distribution of environments
// (Routing), the layouts of all data between workers, the bound on the age of rollouts, and the memory that each rank
// needs (MemoryOf).
//
// Draft finds mistakes without making environments. Complete makes an environment of each kind and a policy, and finds
// the remaining mistakes. Both return all their mistakes as one error.
package plan
