//go:build mpi

package mpi

/*
#include "shim.h"
*/
import "C"

import (
	"cmp"
	"fmt"
	"os"
	"runtime"
	"time"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

var _ spmd.ForeignPeers = (*transport)(nil)

// NumForeign returns the number of processes of other programs.
func (t *transport) NumForeign() int { return int(C.rl_foreign_count(t.world)) }

// SendForeign sends a message to a process of another program; see spmd.ForeignPeers.
func (t *transport) SendForeign(deadline time.Time, process int, head, payload []byte) error {
	return sendForeign(deadline, process, head, payload, 0)
}

// DeliverForeign sends a message, and returns when the receiver has begun to receive it; see
// spmd.ForeignPeers.
func (t *transport) DeliverForeign(deadline time.Time, process int, message []byte) error {
	return sendForeign(deadline, process, message, nil, 1)
}

func sendForeign(deadline time.Time, process int, head, payload []byte, deliver C.int) error {
	var fault C.rl_fault
	rc := C.rl_foreign_send(address(head), C.int64_t(len(head)), address(payload), C.int64_t(len(payload)),
		C.int(process), deliver, remaining(deadline), &fault)
	runtime.KeepAlive(head)
	runtime.KeepAlive(payload)
	return foreignError(rc, &fault)
}

// ReceiveForeign waits for a message of another program; see spmd.ForeignPeers.
func (t *transport) ReceiveForeign(deadline time.Time, from int, buf []byte) (process int, message []byte, err error) {
	var fault C.rl_fault
	var sender C.int
	var n C.int64_t
	var matched unsafe.Pointer
	if err := foreignError(C.rl_foreign_match(C.int(from), remaining(deadline), &sender, &n, &matched, &fault),
		&fault); err != nil {
		return 0, nil, err
	}
	if int(n) > cap(buf) {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	rc := C.rl_foreign_take(matched, address(buf), n, &fault)
	return int(sender), buf, foreignError(rc, &fault)
}

// address returns the address of b as a number. If the result were a pointer, cgo would check the whole
// object that contains b for pointers.
func address(b []byte) C.uintptr_t { return C.uintptr_t(uintptr(unsafe.Pointer(unsafe.SliceData(b)))) }

// remaining returns the nanoseconds until the deadline, or 0 if the deadline has passed.
func remaining(deadline time.Time) C.int64_t { return C.int64_t(max(time.Until(deadline), 0)) }

func foreignError(rc C.int, fault *C.rl_fault) error {
	switch rc {
	case 0:
		return nil
	case C.RL_PENDING:
		return os.ErrDeadlineExceeded
	}
	fault.code = cmp.Or(fault.code, rc)
	return fmt.Errorf("message of a foreign program: %w", callError(fault))
}
