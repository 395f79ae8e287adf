package member

import (
	"errors"
	"testing"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/policy/nn/kernel/device"
)

// TestGuard: code that reads memory of a device is an error with its place, and other panics and errors pass.
func TestGuard(t *testing.T) {
	t.Parallel()
	ops := test.Must(device.New(new(device.Meter)))(t)
	defer ops.Close()
	x := ops.Vector(8)
	var sum float32
	err := Guard(func() error {
		sum += x[3]
		return nil
	})
	test.Fails(t, err, "member.TestGuard.func1 (")
	test.Fails(t, err, "member/gpu_test.go:19): access to address 0x")
	test.Fails(t, err, ", which is memory of a device or invalid")

	test.OK(t, Guard(func() error { return nil }))
	mine := errors.New("mine")
	test.Equal(t, Guard(func() error { return mine }), mine)
	func() {
		defer func() { test.Equal(t, recover(), any("other")) }()
		Guard(func() error { panic("other") })
	}()
}
