//go:build mpi

package mpi

/*
#include <stdlib.h>
#include "shim.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	gompi "github.com/sbromberger/gompi"
	"golang.org/x/sys/unix"

	"github.com/rlinf/rlinf/spmd"
)

// Compiled is true if this build includes MPI.
const Compiled = true

type transport struct {
	world       *C.rl_world
	rank        int
	size        int
	blocks      int // number of tag blocks in a plane; a block has spmd.MaxTag tags
	planes      int
	nodes       []int
	about       spmd.WorldInfo
	shortSleeps shortSleeps
	stall       time.Duration
	stalled     func(stacks []byte)
	log         io.Writer
	arena       arena
	segment     segment
	shared      *shared       // nil if there is none
	watched     chan struct{} // closed when the progress thread has ended
	ending      atomic.Bool   // watch has found a silent rank, and ends the job
	abort       sync.Once
	making      sync.Mutex // held while a communicator is made
	next        uint64     // the first block of tags that no communicator of this process uses
	groups      []*group   // in the order of their creation; guarded by making
	control     *comm      // communicator of all ranks, for agree
	agreeing    []byte     // buffers of agree
	mu          sync.Mutex // guards open, natives and lost
	open        map[*comm]struct{}
	natives     map[*native]struct{} // open natives
	lost        []pinned             // memory of abandoned requests, which MPI may still touch
}

var _ spmd.Transport = (*transport)(nil)

// Open starts MPI and joins the world. It is collective over the processes of the program. A process can
// call it only once.
func Open(opts Options) (_ spmd.Transport, err error) {
	defer annotate(&err, "open mpi")
	opts.StallTimeout = cmp.Or(opts.StallTimeout, time.Minute)
	if opts.StallTimeout > 0 && opts.StallTimeout < 100*time.Millisecond {
		return nil, fmt.Errorf("stall timeout %v: expected at least 100ms, or a negative one for none",
			opts.StallTimeout)
	}
	if opts.Log == nil {
		opts.Log = os.Stderr
	}
	if gompi.IsOn() {
		return nil, errors.New("MPI was started in this process before, and it starts once")
	}
	launched, launcher := Launched()
	if err := startMPI(); err != nil {
		return nil, err
	}
	if launched > 1 && gompi.WorldSize() == 1 {
		gompi.Stop()
		return nil, fmt.Errorf("%w: %s started %d processes, but each sees a world of one: this binary is "+
			"built for %s, so "+
			"start it with that MPI's own launcher, or build it for this one (scripts/build --mpi openmpi or --mpi "+
			"mpich)", ErrMismatch, launcher, launched, Library())
	}
	t := &transport{log: opts.Log, stall: opts.StallTimeout, stalled: opts.Stalled, watched: make(chan struct{}),
		open: make(map[*comm]struct{}), natives: make(map[*native]struct{})}

	// There are five beats in a timeout, so that one late beat does not count as silence.
	beat := time.Second
	if opts.StallTimeout > 0 {
		beat = min(beat, opts.StallTimeout/5)
	}
	var fault C.rl_fault
	var place C.rl_place
	var lowest *C.int
	if rc := C.rl_world_open(C.int64_t(beat), C.int64_t(opts.StallTimeout), &t.world, &place, &lowest,
		&fault); rc != 0 {
		return nil, callError(&fault)
	}
	t.segment = hideSegment()
	t.rank, t.size = int(place.rank), int(place.size)
	t.blocks, t.planes = int(place.tags)/spmd.MaxTag, int(place.planes)
	t.nodes = numberKeys(unsafe.Slice(lowest, t.size)) // a node's key is its lowest rank
	C.free(unsafe.Pointer(lowest))
	host, _ := os.Hostname()
	t.about = spmd.WorldInfo{Transport: "mpi", Library: Library(), Launcher: launcher, Host: host, PID: os.Getpid(),
		Threads: C.GoString(place.level)}

	go t.watch(C.GoString(&place.before[0]))
	if err := t.share(); err != nil {
		return nil, err
	}
	everyone := make([]int, t.size)
	for r := range everyone {
		everyone[r] = r
	}
	l, err := t.layOut(everyone)
	if err != nil {
		return nil, err
	}
	t.next = 1
	if t.control, err = t.newEnd(l, t.rank, "control"); err != nil {
		return nil, err
	}
	t.agreeing, err = t.arena.allocOwn(64)
	return t, err
}

// startMPI starts MPI with gompi. If MPI grants too low a thread level, gompi calls log.Fatalf. startMPI prevents the
// exit and returns an error instead.
func startMPI() (err error) {
	was := log.Writer()
	defer func() {
		log.SetOutput(was)
		if r := recover(); r != nil {
			refused, ok := r.(refusal)
			if !ok {
				panic(r)
			}
			err = fmt.Errorf("rlinf calls MPI from several threads at once and needs MPI_THREAD_MULTIPLE, which this "+
				"MPI does not give (%s): "+
				"use an MPI that is built with it", string(refused))
		}
	}()
	log.SetOutput(refuse{})
	saved := C.rl_signals_save() // MPICH and UCX replace handlers that Go needs, e.g. for USR1 and nil pointers
	gompi.Start(true)
	C.rl_signals_restore(saved)
	return nil
}

type refusal string

// refuse is a log output that panics with the logged text.
type refuse struct{}

func (refuse) Write(p []byte) (int, error) { panic(refusal(strings.TrimSpace(string(p)))) }

// Library returns the name and the version of the MPI library. MPI need not be started.
func Library() string {
	text := (*C.char)(C.calloc(1, 256))
	defer C.free(unsafe.Pointer(text))
	C.rl_library_text(text, 256)
	line, _, _ := strings.Cut(C.GoString(text), "\n")
	name, _, _ := strings.Cut(line, ",") // "Open MPI v4.1.4, package: …", "MPICH Version:	4.0.2"
	return strings.Join(strings.Fields(name), " ")
}

// numberKeys returns a number for each key. It numbers the distinct keys from 0, in the order of their first
// occurrence.
func numberKeys[K comparable](keys []K) []int {
	numbers, known := make([]int, len(keys)), map[K]int{}
	for i, k := range keys {
		if _, ok := known[k]; !ok {
			known[k] = len(known)
		}
		numbers[i] = known[k]
	}
	return numbers
}

// watch ends the job if the previous rank stops responding. The description of that rank is for the log.
func (t *transport) watch(description string) {
	var silent C.int64_t
	stall := C.rl_world_watch(t.world, &silent)
	close(t.watched)
	if stall == 0 {
		return
	}
	t.ending.Store(true)
	stacks := make([]byte, 1<<20)
	t.dump(stacks[:runtime.Stack(stacks, true)])
	fmt.Fprintf(t.log, "%s has been silent for %v (stall timeout %v): it is stopped, or its node hangs; rank %d on "+
		"%s ends the job with exit code %d\n",
		description, time.Duration(silent).Round(time.Millisecond), t.stall, t.rank, t.about.Host, ExitStalled)
	t.Abort(ExitStalled)
}

// reportWait logs a long wait of this rank. The cause is the message, collective or signal that the rank waits for. A
// long wait is no error, because a rank may compute for ever. A rank that stopped would end the job by its silence.
func (t *transport) reportWait(waited time.Duration, cause string) {
	if t.ending.Load() { // watch logs the silent rank, and that line must be the last
		return
	}
	fmt.Fprintf(t.log, "rank %d has waited %v for %s; no rank has stopped, so the job goes on\n",
		t.rank, waited.Round(100*time.Millisecond), cause)
}

// dump passes the stacks of this process to Options.Stalled. It waits at most 5 s for the call, because the
// file systems of a node that hangs may hang too.
func (t *transport) dump(stacks []byte) {
	if t.stalled == nil {
		fmt.Fprintf(t.log, "%s\n\n", stacks)
		return
	}
	taken := make(chan struct{})
	go func() {
		defer close(taken)
		t.stalled(stacks)
	}()
	select {
	case <-taken:
	case <-time.After(5 * time.Second):
	}
}

func (t *transport) Rank() int                { return t.rank }
func (t *transport) Size() int                { return t.size }
func (t *transport) Nodes() []int             { return slices.Clone(t.nodes) }
func (t *transport) Describe() spmd.WorldInfo { return t.about }

// Waits returns three counts about the waits of this rank, for tests that cannot rely on the clock. The first is the
// number of short sleeps that yielded. The second is the number of sleeps between two tests of MPI that a message
// through shared memory ended. The third is the number of sleeps that ended by their time limit although a request was
// done; it should be 0.
func (t *transport) Waits() (yielded, woken, missed int64) {
	var w, m C.int64_t
	C.rl_world_waits(t.world, &w, &m)
	return t.shortSleeps.yielded.Load(), int64(w), int64(m)
}

func (t *transport) Alloc(n int) ([]byte, error) { return t.arena.alloc(n) }

// Abort ends the job with an exit code. It does not return.
func (t *transport) Abort(code int) {
	t.abort.Do(func() {
		time.AfterFunc(5*time.Second, func() { os.Exit(code) }) // in case MPI_Abort hangs
		awaitReader(os.Stdout)
		awaitReader(os.Stderr)
		gompi.NewCommunicator(nil).Abort(code)
		os.Exit(code)
	})
	select {}
}

// awaitReader waits up to a second until the launcher has read the output of this process. MPICH's launcher ends a job
// without reading the rest of its pipes, so the last line would be lost.
func awaitReader(f *os.File) {
	if info, err := f.Stat(); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		return
	}
	for range 1000 {
		if unread, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCINQ); err != nil || unread == 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// Renew implements spmd.Transport. The communicators of the new world use the next blocks of tags after those of the
// old world, so that no receive matches a late message of the old world. Once half of all blocks are used up, the
// next world starts again at the first block.
func (t *transport) Renew(pieces [][]byte) (err error) {
	defer annotate(&err, "renew")
	if err := t.closeOpen(); err != nil {
		return err
	}
	if err := t.arena.keep(pieces); err != nil {
		return err
	}
	t.making.Lock()
	defer t.making.Unlock()
	var fault C.rl_fault
	next := C.int64_t(t.next)
	if C.rl_world_renew(t.world, &next, &fault) != 0 {
		return callError(&fault)
	}
	if t.next = uint64(next); t.next > uint64(t.planes)*uint64(t.blocks)/2 {
		t.next = 1
	}
	t.groups = nil
	return nil
}

// Close waits for all ranks, then stops MPI. It closes communicators that are still open, and returns their errors. If
// MPI does not stop in time, Close returns nevertheless; see finalize.
func (t *transport) Close() error {
	errs := []error{t.closeOpen()}
	C.rl_world_leave(t.world)
	<-t.watched
	C.rl_end_close(t.control.end)
	agreed := t.NumForeign() == 0 && errors.Join(errs...) == nil
	C.rl_world_free(t.world)
	if !t.finalize(agreed) {
		return errors.Join(errs...) // MPI may still touch the memory
	}
	if t.shared != nil {
		t.shared.unmap()
	}
	t.arena.free()
	return errors.Join(errs...)
}

// closeOpen closes the communicators that are still open, and waits for all ranks.
func (t *transport) closeOpen() error {
	t.mu.Lock()
	left := slices.SortedFunc(maps.Keys(t.open), func(a, b *comm) int { return strings.Compare(a.label, b.label) })
	t.mu.Unlock()
	var errs []error
	for _, c := range left {
		errs = append(errs, c.Close())
	}
	errs = append(errs, t.closeNatives())
	var fault C.rl_fault
	if rc := C.rl_world_barrier(t.world, &fault); rc != 0 {
		errs = append(errs, fmt.Errorf("close mpi: %w", callError(&fault)))
	}
	return errors.Join(errs...)
}

// callError returns an error that names the MPI call in f and its failure.
func callError(f *C.rl_fault) error {
	return fmt.Errorf("%s: %s", C.GoString(f.call), errorText(f.code))
}

func errorText(code C.int) string {
	text := (*C.char)(C.calloc(1, 512))
	defer C.free(unsafe.Pointer(text))
	C.rl_error_text(code, text, 512)
	return C.GoString(text)
}
