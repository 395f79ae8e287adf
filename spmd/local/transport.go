package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rlinf/rlinf/spmd"
)

var _ spmd.Transport = (*transport)(nil)

// ErrAborted is the error of communication after Abort.
var ErrAborted = errors.New("the world was aborted")

// New makes a world of n goroutine ranks on one node and returns one transport for each rank. It
// panics if n is below 1.
func New(n int) []spmd.Transport { return newWorld(n, nil) }

func newWorld(n int, l *line) []spmd.Transport {
	if n < 1 {
		panic(fmt.Sprintf("local: a world of %d ranks", n))
	}
	w := &world{size: n, spins: fewSpins, memory: make([]memory, n), gone: make([]atomic.Bool, n), line: l, open: n,
		renewed: make(chan struct{})}
	if procs := runtime.GOMAXPROCS(0); n <= procs && procs > 1 {
		w.spins = spins
	}
	w.changed.Store(new(make(chan struct{})))
	ranks := make([]spmd.Transport, n)
	for r := range ranks {
		ranks[r] = &transport{world: w, rank: r}
	}
	return ranks
}

// A world is the state that the ranks share.
type world struct {
	size     int
	spins    int // number of checks that Await makes before it sleeps
	aborted  atomic.Bool
	memory   []memory              // memory of each rank
	sleepers [sleepLists]sleepList // sleeping goroutines, by the address of their signal
	line     *line                 // simulates links between the ranks; if nil, messages arrive at once

	gone       []atomic.Bool                 // whether each rank has left and its timeout has passed
	departures atomic.Int32                  // number of ranks that are gone
	changed    atomic.Pointer[chan struct{}] // closed and replaced when a rank leaves; closed for good by Abort

	mu      sync.Mutex
	open    int             // number of ranks that have not called Close
	worlds  int             // number of worlds that Renew has ended
	waiting int             // number of ranks that wait in Renew
	renewed chan struct{}   // closed and replaced when all ranks are in Renew
	forming []*communicator // communicators for which some ranks have not called NewComm yet, oldest first
}

type transport struct {
	world  *world
	rank   int
	groups []spmd.MessageSpace // guarded by world.mu
	leave  *time.Timer         // the timer of Leave; nil if there is none
	closed bool
}

func (t *transport) Rank() int { return t.rank }
func (t *transport) Size() int { return t.world.size }

// Nodes puts all ranks on one node, or on the nodes of a simulated network.
func (t *transport) Nodes() []int {
	nodes := make([]int, t.world.size)
	for r := range nodes {
		if t.world.line != nil {
			nodes[r] = t.world.line.node(r)
		}
	}
	return nodes
}

func (t *transport) Describe() spmd.WorldInfo {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	shared := "all memory"
	if why := t.unshared(); why != "" {
		shared = "none: " + why
	}
	return spmd.WorldInfo{Transport: "local", Host: host, PID: os.Getpid(), Threads: "goroutines", Shared: shared}
}

// NewComm does not wait for the other ranks. The first rank that calls it makes the communicator, and the
// other ranks find the communicator by its label and ranks.
func (t *transport) NewComm(ranks []int, label string) ([]spmd.Comm, error) {
	if err := t.check(ranks); err != nil {
		return nil, fmt.Errorf("communicator %q of ranks %v: %w", label, ranks, err)
	}
	w := t.world
	w.mu.Lock()
	defer w.mu.Unlock()
	var c *communicator
	for _, f := range w.forming {
		if f.label == label && slices.Equal(f.ranks, ranks) && !f.joined[t.rank] {
			c = f
			break
		}
	}
	if c == nil {
		c = newCommunicator(w, ranks, label)
		w.forming = append(w.forming, c)
	}
	if c.join(t.rank) {
		w.forming = slices.DeleteFunc(w.forming, func(f *communicator) bool { return f == c })
	}
	var ends []spmd.Comm
	for m, r := range ranks {
		if r == t.rank {
			ends = append(ends, c.ends[m])
		}
	}
	return ends, nil
}

// NewGroup makes a communicator for each purpose with NewComm. Every communicator is isolated from all others.
func (t *transport) NewGroup(ranks []int, name string, purposes []string) (ends [][]spmd.Comm, err error) {
	if err := t.check(ranks); err != nil {
		return nil, fmt.Errorf("group %q of ranks %v: %w", name, ranks, err)
	}
	for _, purpose := range purposes {
		of, err := t.NewComm(ranks, name+"/"+purpose)
		if err != nil {
			return nil, err
		}
		ends = append(ends, of)
	}
	var once []int
	for _, r := range ranks {
		if !slices.Contains(once, r) {
			once = append(once, r)
		}
	}
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	t.groups = append(t.groups, spmd.MessageSpace{Name: name, Ranks: once})
	return ends, nil
}

func (t *transport) Spaces() ([]spmd.MessageSpace, error) {
	world := spmd.MessageSpace{Name: "world"}
	for r := range t.world.size {
		world.Ranks = append(world.Ranks, r)
	}
	t.world.mu.Lock()
	defer t.world.mu.Unlock()
	return append([]spmd.MessageSpace{world}, t.groups...), nil
}

func (t *transport) check(ranks []int) error {
	if t.world.aborted.Load() {
		return ErrAborted
	}
	for _, r := range ranks {
		if r < 0 || r >= t.world.size {
			return fmt.Errorf("rank %d is not in a world of %d", r, t.world.size)
		}
	}
	if !slices.Contains(ranks, t.rank) {
		return fmt.Errorf("rank %d is not one of them", t.rank)
	}
	return nil
}

// Alloc allocates anonymous memory outside the Go heap, if the system supports it. The memory is
// freed by Renew, or when the last rank closes.
func (t *transport) Alloc(n int) ([]byte, error) { return t.world.memory[t.rank].alloc(n) }

// Abort makes every wait of the world fail with ErrAborted. It then returns, because goroutines
// cannot be killed. The caller must end the process.
func (t *transport) Abort(int) {
	w := t.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.aborted.Swap(true) {
		close(*w.changed.Load())
		w.line.close()
	}
}

// news returns a Go channel that is closed when the world ends or a rank leaves.
func (w *world) news() <-chan struct{} { return *w.changed.Load() }

// ended returns the error for a wait if its context has ended or the world was aborted, and nil otherwise.
func (w *world) ended(ctx context.Context) error {
	switch {
	case ctx.Err() != nil: // checked first, because its cause is more specific than ErrAborted
		return context.Cause(ctx)
	case w.aborted.Load():
		return ErrAborted
	}
	return nil
}

// Renew waits for all ranks. The last rank that calls it resets their shared state.
func (t *transport) Renew(pieces [][]byte) error {
	w := t.world
	w.mu.Lock()
	renewed := w.renewed
	t.stopLeaving()
	t.groups = nil
	if w.waiting++; w.waiting == w.size {
		w.renew()
	}
	w.mu.Unlock()
	for met := false; !met; {
		news := w.news()
		if w.aborted.Load() {
			return ErrAborted
		}
		select {
		case <-renewed:
			met = true
		case <-news:
		}
	}
	return w.memory[t.rank].keep(pieces)
}

// renew resets the shared state of the ranks. The caller holds w.mu. Communicators of the old world are not connected
// to communicators of the new world.
func (w *world) renew() {
	w.forming = nil
	w.worlds++ // so that timers of Leave in the old world have no effect
	for r := range w.gone {
		w.gone[r].Store(false)
	}
	w.departures.Store(0)
	w.waiting = 0
	close(w.renewed)
	w.renewed = make(chan struct{})
}

// Close does not wait for the other ranks. The last rank's Close frees the memory of Alloc.
func (t *transport) Close() error {
	w := t.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if t.closed {
		return nil
	}
	t.closed = true
	t.stopLeaving()
	w.open--
	if w.open > 0 {
		return nil
	}
	w.line.close()
	var errs []error
	for i := range w.memory {
		errs = append(errs, w.memory[i].keep(nil))
	}
	return errors.Join(errs...)
}
