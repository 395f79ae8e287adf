//go:build linux

package mpi_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/internal/test"
)

// meetings is the name of the variable that tells a process of BenchmarkMeeting how often it meets the others.
const meetings = "RLINF_TEST_MEETINGS"

// BenchmarkMeeting measures a barrier of 8 processes by one futex: the last process to arrive wakes the others. A sum
// of 8 ranks contains such a meeting, so this is its limit if all of them sleep.
func BenchmarkMeeting(b *testing.B) {
	const processes = 8
	runtime.LockOSThread()
	if text := os.Getenv(meetings); text != "" { // a process that the benchmark has started
		var n int
		test.Must(fmt.Sscan(text, &n))(b)
		meet(b, os.NewFile(3, "memory"), n, processes)
		os.Exit(0)
	}
	memory := os.NewFile(uintptr(test.Must(unix.MemfdCreate("meeting", unix.MFD_CLOEXEC))(b)), "memory")
	defer memory.Close()
	test.OK(b, memory.Truncate(int64(os.Getpagesize())))
	for range processes - 1 {
		c := exec.Command(os.Args[0], "-test.run=^$", "-test.bench=^BenchmarkMeeting$")
		c.Env, c.ExtraFiles = append(os.Environ(), fmt.Sprint(meetings, "=", b.N)), []*os.File{memory}
		test.OK(b, c.Start())
		defer c.Wait()
	}
	meet(b, memory, b.N, processes)
}

// meet makes n meetings after a first one, which waits for the start of the last process.
func meet(b *testing.B, memory *os.File, n, processes int) {
	mem := test.Must(unix.Mmap(int(memory.Fd()), 0, os.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_SHARED))(b)
	defer unix.Munmap(mem)
	words := (*struct{ arrived, meeting atomic.Uint32 })(unsafe.Pointer(unsafe.SliceData(mem)))
	futex := func(op, value uintptr) {
		unix.RawSyscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&words.meeting)), op, value, 0, 0, 0)
	}
	const wait, wake = 0, 1
	for i := range uint32(n + 1) {
		if words.arrived.Add(1) == (i+1)*uint32(processes) {
			words.meeting.Store(i + 1)
			futex(wake, math.MaxInt32)
		}
		for words.meeting.Load() == i {
			futex(wait, uintptr(i))
		}
		if i == 0 {
			b.ResetTimer()
		}
	}
}
