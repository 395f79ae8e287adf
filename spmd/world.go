package spmd

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// A World is one rank's view of the job. Any goroutine may call its methods. Collective methods must be
// called in the same order on every rank.
type World struct {
	job  *job
	t    Transport
	desc WorldInfo

	nodes     []int // node of each rank
	localRank int
	localSize int
	step      atomic.Int64

	newRecorder func(group string, member int) Recorder // nil if nothing is recorded
	recorder    Recorder                                // recorder of main
	sent        []sent                                  // indexed by rank; nil if messages are not counted

	workers sync.WaitGroup // goroutines that end when stop is closed
	tasks   sync.WaitGroup // goroutines of World.Go, which end by themselves
	stop    chan struct{}

	mu       sync.Mutex
	control  Comm // communicator of all ranks, for the barriers of close
	comms    []Comm
	groups   map[string]*roster
	channels []*Channel
	kept     [][]byte // memory that outlives this world if main returns Again
	calls    int64
	history  uint64
}

func newWorld(j *job, t Transport) *World {
	w := &World{job: j, t: t, desc: t.Describe(), stop: make(chan struct{}), groups: make(map[string]*roster)}
	w.step.Store(-1)
	w.nodes = t.Nodes()
	if n := j.opts.VirtualNodes; n > 0 {
		w.nodes = virtualNodes(t.Size(), n)
	}
	for r, node := range w.nodes {
		if node == w.nodes[t.Rank()] {
			if r < t.Rank() {
				w.localRank++
			}
			w.localSize++
		}
	}
	return w
}

// virtualNodes splits the ranks into n contiguous blocks, one for each node, and returns the node of each rank.
func virtualNodes(size, n int) []int {
	nodes := make([]int, size)
	for r := range nodes {
		nodes[r] = r * n / size
	}
	return nodes
}

// Rank returns the number of this rank, 0..Size-1.
func (w *World) Rank() int { return w.t.Rank() }

// Size returns the number of ranks.
func (w *World) Size() int { return w.t.Size() }

// Ranks returns all ranks, in order.
func (w *World) Ranks() []int { return ascending(0, w.Size()) }

// ascending returns n numbers: lowest, lowest+1, …, lowest+n-1.
func ascending(lowest, n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = lowest + i
	}
	return numbers
}

// Abort ends the whole job, including its other programs, with an exit code. It does not return if ranks are processes.
func (w *World) Abort(code int) { w.t.Abort(code) }

// ForeignPeers gives access to the processes of other programs in the same job. It returns nil if
// there are no such processes.
func (w *World) ForeignPeers() ForeignPeers {
	if o, ok := w.t.(ForeignPeers); ok && o.NumForeign() > 0 {
		return o
	}
	return nil
}

// Nodes returns the node of each rank, real or virtual. The slice is a copy.
func (w *World) Nodes() []int { return slices.Clone(w.nodes) }

// Node returns the node of this rank.
func (w *World) Node() int { return w.nodes[w.Rank()] }

// LocalRank returns the number of this rank among the ranks of its node.
func (w *World) LocalRank() int { return w.localRank }

// LocalSize returns the number of ranks on this rank's node.
func (w *World) LocalSize() int { return w.localSize }

// Host returns the name of the machine.
func (w *World) Host() string { return w.desc.Host }

// Describe describes the transport and the machine of the world.
func (w *World) Describe() WorldInfo { return w.desc }

// Alloc returns zeroed memory outside the Go heap, aligned to 64 bytes, which communication uses without copying. The
// memory is valid until the world ends. To use its contents longer, copy them or call Keep.
func (w *World) Alloc(n int) ([]byte, error) { return w.t.Alloc(n) }

// Keep preserves pieces of memory from this rank's Alloc if main returns Again. The pieces keep their addresses and
// contents. The next world treats them like memory of its own Alloc, so main must call Keep again to preserve them for
// longer.
func (w *World) Keep(pieces ...[]byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.kept = append(w.kept, pieces...)
}

// Shared gives access to the memory of all ranks on this node. The bool is equal on all ranks. It is false if the
// transport or the machine does not support shared memory.
func (w *World) Shared() (Shared, bool) {
	if m, ok := w.t.(SharedMaker); ok {
		return m.Shared()
	}
	return nil, false
}

// HasNative reports whether the transport's library has collectives of its own.
func (w *World) HasNative() bool {
	_, ok := w.t.(NativeMaker)
	return ok
}

// NewNative makes a communicator with the collectives of the transport's library. It is collective over the given
// ranks. It returns an error if the transport has no such library.
func (w *World) NewNative(ranks []int, label string) (Native, error) {
	m, ok := w.t.(NativeMaker)
	if !ok {
		return nil, fmt.Errorf("communicator %q: the transport %q has no collectives of its own", label,
			w.desc.Transport)
	}
	return m.NewNative(ranks, label)
}

// SetStep sets the step of this rank. Failure messages of the rank name the step.
func (w *World) SetStep(step int64) { w.step.Store(step) }

// NewComm makes a communicator whose member m is on ranks[m]. A rank may be listed more than once. The call is
// collective over these ranks only, and returns one Comm for each member on this rank, in order. The communicator is
// closed when the world ends.
func (w *World) NewComm(ranks []int, label string) ([]Comm, error) {
	return w.newComm(ranks, label, false)
}

// Spaces returns the message spaces that this rank is in. The world's space is the first.
func (w *World) Spaces() ([]MessageSpace, error) { return w.t.Spaces() }

// newComm does the work of NewComm. If served is true, the communicator stays in use after main has
// returned.
func (w *World) newComm(ranks []int, label string, served bool) ([]Comm, error) {
	ends, err := w.t.NewComm(ranks, label)
	if err != nil {
		return nil, err
	}
	if d, ok := w.t.(Departer); ok && served {
		for _, c := range ends {
			d.Outlast(c)
		}
	}
	return w.keep(ends), nil
}

// Go runs f in a new goroutine. An error or a panic of f ends the job, and the failure message contains the given name.
// Run waits for f.
func (w *World) Go(name string, f func() error) {
	w.tasks.Go(func() { protect(w.reporter(name, -1), f) })
}

// Calls returns the number of collective steps (Launch, NewChannel, Call) that this rank has made, and a hash of these
// steps. Ranks that made the same steps get equal results. So a comparison detects a rank that took another branch.
func (w *World) Calls() (n int64, hash uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.calls, w.history
}

// note adds one collective step to the count and the hash that Calls returns.
func (w *World) note(kind, name string, members []int) {
	h := fnv.New64a()
	fmt.Fprint(h, kind, name, members)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls++
	w.history = w.history*1099511628211 ^ h.Sum64()
}

// reporter returns a function that ends the job with the error of one of this rank's goroutines.
func (w *World) reporter(component string, member int) func(error) {
	return func(err error) {
		if err == nil {
			return
		}
		f := &Failure{Component: component, Member: member, Rank: w.Rank(), Host: w.Host(), Step: w.step.Load(),
			Err: err}
		if p := (*panicError)(nil); errors.As(err, &p) {
			f.Stack = p.stack
		}
		w.job.fail(f)
	}
}

// run runs main and then the shutdown, which is collective over all ranks. The bool is true if main returned Again and
// the job continues.
func (w *World) run(main func(ctx context.Context, w *World) error) (again bool, err error) {
	if n := w.job.opts.VirtualNodes; n < 0 || n > w.Size() {
		return false, fmt.Errorf("virtual nodes: %d for %d ranks, expected 0..%d", n, w.Size(), w.Size())
	}
	ends, err := w.newComm(w.Ranks(), "world", true)
	if err != nil {
		return false, err
	}
	w.control = ends[0]
	err = main(w.job.ctx, w)
	if again = errors.Is(err, Again); err != nil && !again {
		return false, err
	}
	close(w.stop)
	w.workers.Wait()
	w.tasks.Wait()
	if w.job.end.Err() != nil {
		return false, nil // the failing rank has reported it
	}
	if d, ok := w.t.(Departer); ok {
		d.Leave(w.job.opts.StallTimeout)
	}
	if err := w.close(w.job.end, again); err != nil || w.job.end.Err() != nil {
		return false, err
	}
	if !again {
		return false, w.t.Close()
	}
	if err := w.t.Renew(w.kept); err != nil {
		return false, err
	}
	return true, nil
}

// close closes the channels and communicators. Its barriers keep each channel and communicator open until no rank needs
// it.
func (w *World) close(ctx context.Context, again bool) error {
	for _, phase := range []func(*Channel, context.Context) error{
		(*Channel).drain, // wait until all sends of this rank are done
		(*Channel).halt,  // no rank sends requests any more: stop serving shared keys
		(*Channel).close, // no rank serves any more: cancel the remaining receives
	} {
		for _, c := range w.channels {
			if err := phase(c, ctx); err != nil {
				return err
			}
		}
		ending, returning, err := w.barrier(ctx, again)
		if err != nil {
			return err
		}
		switch {
		case ending < 0 || returning < 0:
		case w.Rank() != returning: // that rank's error ends the job
			<-ctx.Done()
			return nil
		default:
			return fmt.Errorf("main has returned spmd.Again on rank %d, and nil on rank %d: expected the same on "+
				"every rank", returning, ending)
		}
	}
	for _, c := range w.comms {
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// barrier returns when every rank has called it. It returns the lowest rank whose flag is false, and the lowest rank
// whose flag is true; -1 means no rank. It is the dissemination barrier, with ⌈log₂ P⌉ rounds for P ranks (Hensgen,
// Finkel, Manber 1988).
func (w *World) barrier(ctx context.Context, flag bool) (lowestFalse, lowestTrue int, err error) {
	const none = math.MaxUint32
	first := [2]uint32{none, none}
	if flag {
		first[1] = uint32(w.Rank())
	} else {
		first[0] = uint32(w.Rank())
	}
	var in, out [8]byte
	var reqs [2]Request
	c := w.control
	for hop := 1; hop < c.Size(); hop *= 2 {
		to, from := (c.Rank()+hop)%c.Size(), (c.Rank()-hop+c.Size())%c.Size()
		binary.LittleEndian.PutUint32(out[:], first[0])
		binary.LittleEndian.PutUint32(out[4:], first[1])
		if reqs[0], err = c.Irecv(in[:], from, 0); err != nil {
			return -1, -1, err
		}
		if reqs[1], err = c.Isend(out[:], to, 0); err != nil {
			return -1, -1, err
		}
		if err := c.Wait(ctx, reqs[:]); err != nil {
			return -1, -1, err
		}
		first[0] = min(first[0], binary.LittleEndian.Uint32(in[:]))
		first[1] = min(first[1], binary.LittleEndian.Uint32(in[4:]))
	}
	return int(int32(first[0])), int(int32(first[1])), nil
}
