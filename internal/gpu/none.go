//go:build !cuda

package gpu

import "errors"

const noTag = "this build cannot find GPUs: it lacks the build tag cuda (scripts/build --tags \"mpi cuda\")"

// Devices returns no devices, and the reason.
func Devices() ([]Device, string) { return nil, noTag }

// Open returns the reason why there is no device.
func Open(int) (Driver, error) { return nil, errors.New(noTag) }
