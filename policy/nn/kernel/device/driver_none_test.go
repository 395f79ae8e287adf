//go:build !cuda

package device

import (
	"testing"

	"github.com/rlinf/rlinf/policy/nn/kernel/device/devicetest"
)

// newDriver returns an interpreter.
func newDriver(testing.TB) Driver { return new(devicetest.Interpreter) }
