// Package export answers: how does a trained policy act in a program without rlinf? It writes a policy as a file of
// ONNX, or as C with a module for Fortran, with a description and a test vector. The result reads the observations of
// the simulator, before the wrappers of the job. It computes the action that the environment gets (policy.Act.Feed).
//
// The tree of package policy/graph becomes a program: a list of steps on numbered values (program.go). Each format
// translates the steps one by one, so all formats compute the same.
package export
