// Package plan answers: what follows from the configuration of a job with environments in a world? A Plan has
// the workers of every rank and which environments they share (Routing), the layout of all data that travels,
// the age that rollouts may have, and the memory that all of it takes.
//
// Draft finds what is wrong without making anything; Complete makes an environment of each kind and a policy,
// and finds the rest. Each reports everything as one error.
package plan
