// Package plain is the yardstick of env/mujoco: the same physics in a loop in C, as short as one would write it. It serves the benchmark and
// nothing else, and needs the build tag mujoco.
package plain
