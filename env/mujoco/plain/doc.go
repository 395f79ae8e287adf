// Package plain is the reference for tests and benchmarks of env/mujoco: the same physics in the shortest
// possible loop in C, and pictures from MuJoCo's own ray intersections. It needs the build tag mujoco.
package plain
