//go:build !cuda

package gpu

// Devices returns no devices, and the reason.
func Devices() ([]Device, string) {
	return nil, "this build cannot find GPUs: it lacks the build tag cuda (scripts/build --tags \"mpi cuda\")"
}
