// Package plain is the yardstick of env/mujoco: the same physics in a loop in C, as short as one
// would write it, and what cameras see by MuJoCo's own rays. It serves tests and benchmarks and
// nothing else, and needs the build tag mujoco.
package plain
