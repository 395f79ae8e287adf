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

// A shared is the memory of all ranks, as one of them reaches it.
type shared struct{ *transport }

// Shared returns the memory of the world; see spmd.SharedMaker. The environment variable
// RLINF_SHM=off turns it off, so that what works without can be tried.
func (t *transport) Shared() (spmd.Shared, bool) {
	if t.unshared() != "" {
		return nil, false
	}
	return shared{t}, true
}

// unshared says why the ranks share no memory; "" if they do.
func (t *transport) unshared() string {
	switch {
	case os.Getenv("RLINF_SHM") == "off":
		return "RLINF_SHM=off"
	case t.world.line != nil:
		return "a link lies between the ranks"
	}
	return ""
}

func (s shared) Locate(b []byte) (at int64, ok bool) { return s.world.memory[s.rank].locate(b) }

func (s shared) View(rank int, at int64, n int) ([]byte, error) {
	if rank < 0 || rank >= s.world.size {
		return nil, fmt.Errorf("view memory of rank %d: expected a rank of 0..%d", rank, s.world.size-1)
	}
	b, err := s.world.memory[rank].view(at, n)
	if err != nil {
		return nil, fmt.Errorf("view memory of rank %d: %w", rank, err)
	}
	return b, nil
}

// looks is how often Await lets other goroutines run and looks again before it sleeps.
const looks = 8

func (s shared) Await(ctx context.Context, sig *spmd.Signal, old uint32, rank int) error {
	for range looks {
		if sig.Value.Load() != old {
			return nil
		}
		runtime.Gosched()
	}
	w := s.world
	b := &w.beds[uintptr(unsafe.Pointer(sig))/unsafe.Sizeof(*sig)%beds]
	for {
		news := w.news()
		z := b.lie(sig)
		err := s.vain(rank)
		if sig.Value.Load() != old { // Post sees who lies there by now
			b.rise(z)
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
		b.rise(z)
		if err != nil || sig.Value.Load() != old {
			return err
		}
	}
}

// vain returns an error if a signal of rank, or of any other than this one's if that is -1, can no
// longer be posted.
func (s shared) vain(rank int) error {
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
		s.world.beds[uintptr(unsafe.Pointer(sig))/unsafe.Sizeof(*sig)%beds].ring(sig)
	}
}

// beds is how many lists the sleepers of a world are spread over.
const beds = 64

// A bed is where goroutines sleep until a signal is posted: those of the signals whose addresses
// fall together.
type bed struct {
	mu     sync.Mutex
	asleep *sleeper
	free   *sleeper
}

// A sleeper is one goroutine's sleep.
type sleeper struct {
	next *sleeper
	sig  *spmd.Signal
	wake chan struct{} // one token: the signal was posted
}

// lie counts a goroutine among the sleepers for sig.
func (b *bed) lie(sig *spmd.Signal) *sleeper {
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

// rise takes it off again.
func (b *bed) rise(z *sleeper) {
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

// ring wakes all that sleep for sig.
func (b *bed) ring(sig *spmd.Signal) {
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
