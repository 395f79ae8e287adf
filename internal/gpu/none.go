//go:build !cuda

package gpu

// Devices returns no devices, and the reason.
func Devices() ([]Device, string) {
	return nil, "GPUs are not looked for: this build lacks the tag cuda (scripts/build --tags \"mpi cuda\")"
}
