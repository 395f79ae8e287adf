package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

var (
	_ spmd.SharedMaker = (*transport)(nil)
	_ spmd.Shared      = (*shared)(nil)
)

// A shared is one rank's access to the memory of all ranks.
type shared struct{ *transport }

// Shared gives access to the memory of the world; see spmd.SharedMaker. The environment variable
// RLINF_SHM=off disables shared memory, for tests.
func (t *transport) Shared() (spmd.Shared, bool) {
	if t.unshared() != "" {
		return nil, false
	}
	return shared{t}, true
}

// unshared returns the reason why the ranks share no memory. It returns "" if they share memory.
func (t *transport) unshared() string {
	switch {
	case os.Getenv("RLINF_SHM") == "off":
		return "RLINF_SHM=off"
	case t.world.line != nil && t.world.line.perNode == 1:
		return "a link lies between the ranks"
	}
	return ""
}

func (s shared) Locate(b []byte) (at int64, ok bool) { return s.world.memory[s.rank].locate(b) }

func (s shared) View(rank int, at int64, n int) ([]byte, error) {
	if rank < 0 || rank >= s.world.size {
		return nil, fmt.Errorf("view memory of rank %d: expected a rank of 0..%d", rank, s.world.size-1)
	}
	if l := s.world.line; l != nil && l.node(rank) != l.node(s.rank) {
		return nil, fmt.Errorf("view memory of rank %d: it is on another node", rank)
	}
	b, err := s.world.memory[rank].view(at, n)
	if err != nil {
		return nil, fmt.Errorf("view memory of rank %d: %w", rank, err)
	}
	return b, nil
}

// Before Await sleeps, it checks the signal 400 times, or 8 times if there are more ranks than GOMAXPROCS. Between
// checks it yields to other goroutines. 400 checks take some 50 µs, about as long as waking a sleeper. If GOMAXPROCS is
// 1, 8 checks are enough, too: between two checks every goroutine runs that is ready to run.
const spins, fewSpins = 400, 8

func (s shared) Await(ctx context.Context, sig *spmd.Signal, old uint32, rank int) error {
	for range s.world.spins {
		if sig.Value.Load() != old {
			return nil
		}
		runtime.Gosched()
	}
	w := s.world
	b := &w.sleepers[uintptr(unsafe.Pointer(sig))/unsafe.Sizeof(*sig)%sleepLists]
	for {
		news := w.news()
		z := b.add(sig)
		err := s.leftError(rank)
		if sig.Value.Load() != old { // from here on, a Post wakes z
			b.remove(z)
			return nil
		}
		if err == nil {
			select {
			case <-z.wake:
			case <-news:
				err = w.ended(ctx)
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		b.remove(z)
		if err != nil || sig.Value.Load() != old {
			return err
		}
	}
}

// leftError returns an error if the rank has left and so cannot post a signal. For rank = -1, it returns an
// error if all other ranks have left.
func (s shared) leftError(rank int) error {
	if s.world.departures.Load() == 0 {
		return nil
	}
	if rank < 0 {
		for r := range s.world.size {
			if r != s.rank && !s.world.gone[r].Load() {
				return nil
			}
		}
		return errors.New("wait for a signal: all other ranks have left: their programs have ended")
	}
	if err := s.world.departed(rank); err != nil {
		return fmt.Errorf("wait for a signal: %w", err)
	}
	return nil
}

func (s shared) Post(sig *spmd.Signal, value uint32) {
	sig.Value.Store(value)
	if sig.Sleepers.Load() > 0 {
		s.world.sleepers[uintptr(unsafe.Pointer(sig))/unsafe.Sizeof(*sig)%sleepLists].wake(sig)
	}
}

// sleepLists is the number of lists for sleeping goroutines.
const sleepLists = 64

// A sleepList holds the goroutines that wait for signals whose addresses have the same hash.
type sleepList struct {
	mu     sync.Mutex
	asleep *sleeper
	free   *sleeper
}

// A sleeper is one sleeping goroutine.
type sleeper struct {
	next *sleeper
	sig  *spmd.Signal
	wake chan struct{} // receives a token when the signal is posted
}

func (b *sleepList) add(sig *spmd.Signal) *sleeper {
	b.mu.Lock()
	defer b.mu.Unlock()
	z := b.free
	if z == nil {
		z = &sleeper{wake: make(chan struct{}, 1)}
	} else {
		b.free = z.next
	}
	z.sig, z.next = sig, b.asleep
	b.asleep = z
	sig.Sleepers.Add(1)
	return z
}

func (b *sleepList) remove(z *sleeper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	at := &b.asleep
	for *at != z {
		at = &(*at).next
	}
	*at = z.next
	z.sig.Sleepers.Add(^uint32(0))
	select {
	case <-z.wake:
	default:
	}
	z.sig, z.next = nil, b.free
	b.free = z
}

// wake wakes all sleepers for sig.
func (b *sleepList) wake(sig *spmd.Signal) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for z := b.asleep; z != nil; z = z.next {
		if z.sig == sig {
			select {
			case z.wake <- struct{}{}:
			default:
			}
		}
	}
}
