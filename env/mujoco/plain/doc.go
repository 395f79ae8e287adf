// Package plain is a reference for tests and benchmarks of env/mujoco. It runs the same physics in a minimal loop in C,
// and computes pictures with MuJoCo's own ray intersections. It needs the build tag mujoco.
package plain
