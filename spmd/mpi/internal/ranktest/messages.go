//go:build mpi

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"github.com/rlinf/rlinf/spmd"
)

// messages tests what the conformance suite does not test: buffers in Alloc memory and in Go memory, members that
// share a process, message sizes for which the libraries have different protocols, and errors that name the request.
func messages(ctx context.Context, t spmd.Transport, _ []string) error {
	for _, k := range []int{1, 2, 3} {
		ends, err := everyone(t, k, fmt.Sprint("exchange ", k))
		if err != nil {
			return err
		}
		if len(ends) != k {
			return fmt.Errorf("%d ends for %d members on each rank", len(ends), k)
		}
		var all sync.WaitGroup
		errs := make([]error, k)
		for i, c := range ends {
			all.Add(1)
			go func() {
				defer all.Done()
				errs[i] = exchange(ctx, t, c)
			}()
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		for _, c := range ends {
			if err := c.Close(); err != nil {
				return err
			}
		}
	}
	if err := refusals(ctx, t); err != nil {
		return err
	}
	if err := whileOthersWait(ctx, t); err != nil {
		return err
	}
	return someRanks(ctx, t)
}

// exchange sends messages of several sizes to every member, including the sender. It sends from Alloc memory and from
// Go memory, while the garbage collector runs.
func exchange(ctx context.Context, t spmd.Transport, c spmd.Comm) error {
	for _, size := range []int{0, 1, 7, 4096, 4097, 65537, 300_000} {
		for _, goMemory := range []bool{false, true} {
			get := func() ([]byte, error) { return memory(t, size, goMemory) }
			var reqs []spmd.Request
			in := make([][]byte, c.Size())
			for peer := range c.Size() {
				var err error
				if in[peer], err = get(); err != nil {
					return err
				}
				r, err := c.Irecv(in[peer], peer, size%100)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			for peer := range c.Size() {
				out, err := get()
				if err != nil {
					return err
				}
				fill(out, c.Rank(), peer)
				r, err := c.Isend(out, peer, size%100)
				if err != nil {
					return err
				}
				reqs = append(reqs, r)
			}
			if goMemory {
				runtime.GC()
			}
			if err := c.Wait(ctx, reqs); err != nil {
				return err
			}
			for peer := range c.Size() {
				if reqs[peer] != (spmd.Request{N: size}) {
					return fmt.Errorf("%d bytes from %d: request is %+v once done", size, peer, reqs[peer])
				}
				want := make([]byte, size)
				fill(want, peer, c.Rank())
				if !bytes.Equal(in[peer], want) {
					return fmt.Errorf("%d bytes from %d to %d came changed (Go memory: %v)", size, peer, c.Rank(),
						goMemory)
				}
			}
		}
	}
	return nil
}

// memory returns a slice of the given size, with spare bytes before and after it.
func memory(t spmd.Transport, size int, ofGo bool) ([]byte, error) {
	if ofGo {
		return make([]byte, size+16)[8 : 8+size : 16+size], nil
	}
	b, err := t.Alloc(size + 16)
	if err != nil {
		return nil, err
	}
	if size > 0 && uintptr(unsafe.Pointer(&b[0]))%64 != 0 {
		return nil, errors.New("memory is not on 64 bytes")
	}
	return b[8 : 8+size], nil
}

func fill(b []byte, from, to int) {
	for i := range b {
		b[i] = byte(i*7 + from*31 + to*101 + i>>8)
	}
}

// whileOthersWait shows that a large message arrives while its receiver waits only for a small message. The
// sender sends the small message once the large send is done. The first small message uses the communicator
// of the large message, and the second uses another communicator.
func whileOthersWait(ctx context.Context, t spmd.Transport) error {
	if t.Size() == 1 || t.Rank() > 1 {
		return nil
	}
	var c [2]spmd.Comm
	for i := range c {
		ends, err := t.NewComm([]int{0, 1}, fmt.Sprint("while others wait ", i))
		if err != nil {
			return err
		}
		c[i] = ends[0]
	}
	b := make([]byte, 1<<20)
	for i := range c {
		var message, release spmd.Request
		var err error
		if t.Rank() == 0 {
			if message, err = c[0].Irecv(b, 1, 1); err != nil {
				return err
			}
			if release, err = c[i].Irecv(nil, 1, 2); err != nil {
				return err
			}
			if err = c[i].Wait(ctx, []spmd.Request{release}); err != nil {
				return err
			}
			err = c[0].Wait(ctx, []spmd.Request{message})
		} else {
			if message, err = c[0].Isend(b, 0, 1); err != nil {
				return err
			}
			if err = c[0].Wait(ctx, []spmd.Request{message}); err != nil {
				return err
			}
			if release, err = c[i].Isend(nil, 0, 2); err != nil {
				return err
			}
			err = c[i].Wait(ctx, []spmd.Request{release})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// refusals checks calls that must return errors, and the texts of these errors.
func refusals(ctx context.Context, t spmd.Transport) error {
	ends, err := everyone(t, 1, "refusals")
	if err != nil {
		return err
	}
	c := ends[0]
	if err := errors.Join(wrongCalls(ctx, t, c), tooLong(ctx, c), cancelled(ctx, c), anyOfSome(ctx, c)); err != nil {
		return err
	}
	return c.Close()
}

func wrongCalls(ctx context.Context, t spmd.Transport, c spmd.Comm) error {
	me := c.Rank()
	post := func(sending bool, n, peer, tag int) error {
		var r spmd.Request
		var err error
		if sending {
			r, err = c.Isend(make([]byte, n), peer, tag)
		} else {
			r, err = c.Irecv(make([]byte, n), peer, tag)
		}
		if err != nil {
			return err
		}
		return c.Wait(ctx, []spmd.Request{r})
	}
	huge := unsafe.Slice((*byte)(unsafe.Pointer(&t)), 1<<30+1) // never read
	_, errHuge := c.Isend(huge, me, 0)
	for _, e := range []struct {
		err  error
		want string
	}{
		{post(true, 1, c.Size(), 0), "send 1 bytes to member"},
		{post(false, 1, -1, 0), "expected a member from 0"},
		{post(true, 1, me, spmd.MaxTag), "expected a tag from 0 to 4095"},
		{post(true, 1, me, -1), "expected a tag"},
		{errHuge, "expected at most 1073741824 bytes"},
		{second(t.NewComm([]int{t.Size()}, "beyond")), `communicator "beyond": member 0 is on rank`},
		{second(t.NewComm(nil, "empty")), "no members"},
	} {
		if e.err == nil || !strings.Contains(e.err.Error(), e.want) {
			return fmt.Errorf("error %v, want one with %q", e.err, e.want)
		}
	}
	return nil
}

// tooLong shows that Wait returns an error if a message is longer than its receive buffer. The error names
// the request, and the memory behind the buffer does not change.
func tooLong(ctx context.Context, c spmd.Comm) error {
	me := c.Rank()
	for _, size := range []int{16, 300_000} {
		buf := bytes.Repeat([]byte{0xee}, size)
		in, err := c.Irecv(buf[:8], me, 5)
		if err != nil {
			return err
		}
		out, err := c.Isend(make([]byte, size), me, 5)
		if err != nil {
			return err
		}
		err = c.Wait(ctx, []spmd.Request{in})
		if err == nil || !strings.Contains(err.Error(),
			fmt.Sprintf(`communicator "refusals", member %d: receive 8 bytes from member %d, tag 5`, me, me)) {
			return fmt.Errorf("%d bytes into a buffer of 8: %v", size, err)
		}
		if !bytes.Equal(buf[8:], bytes.Repeat([]byte{0xee}, size-8)) {
			return fmt.Errorf("%d bytes into a buffer of 8: overrun", size)
		}
		if err := c.Wait(ctx, []spmd.Request{out}); err != nil && !strings.Contains(err.Error(), "send") {
			return err
		}
	}
	return nil
}

// cancelled shows that the end of a context ends a wait, and that a receive without a message can be
// cancelled.
func cancelled(ctx context.Context, c spmd.Comm) error {
	in, err := c.Irecv(make([]byte, 8), c.Rank(), 6)
	if err != nil {
		return err
	}
	stopped, stop := context.WithCancelCause(ctx)
	cause := errors.New("enough")
	stop(cause)
	if err := c.Wait(stopped, []spmd.Request{in}); err != cause {
		return fmt.Errorf("wait with a context that ended: %v, want its cause", err)
	}
	if done, err := c.Test(&in); done || err != nil {
		return fmt.Errorf("test of a receive without a message: %v, %v", done, err)
	}
	again := in
	if err := c.Cancel(&in); err != nil || in != (spmd.Request{}) {
		return fmt.Errorf("cancel: %v, request %+v", err, in)
	}
	if err := c.Wait(ctx, []spmd.Request{again}); err == nil {
		return errors.New("a request that is gone can be waited for")
	}
	return nil
}

// anyOfSome shows that WaitAny completes a receive after an equal receive was cancelled.
func anyOfSome(ctx context.Context, c spmd.Comm) error {
	me := c.Rank()
	out, err := c.Isend(make([]byte, 3), me, 6)
	if err != nil {
		return err
	}
	reqs := make([]spmd.Request, 3)
	if reqs[1], err = c.Irecv(make([]byte, 8), me, 6); err != nil {
		return err
	}
	if i, err := c.WaitAny(ctx, reqs); i != 1 || err != nil || reqs[1] != (spmd.Request{N: 3}) {
		return fmt.Errorf("wait any: %d, %v, %+v", i, err, reqs[1])
	}
	if i, err := c.WaitAny(ctx, reqs); i != -1 || err != nil {
		return fmt.Errorf("wait any of nothing: %d, %v", i, err)
	}
	return c.Wait(ctx, []spmd.Request{out})
}

func second[T any](_ T, err error) error { return err }

// someRanks makes one communicator of the even ranks and one of the odd ranks, at the same time. The ranks are
// in descending order, and each has two members.
func someRanks(ctx context.Context, t spmd.Transport) error {
	var ranks []int
	for r := t.Size() - 1; r >= 0; r-- {
		if r%2 == t.Rank()%2 {
			ranks = append(ranks, r, r)
		}
	}
	ends, err := t.NewComm(ranks, fmt.Sprint("parity ", t.Rank()%2))
	if err != nil {
		return err
	}
	if got := ranks[ends[1].Rank()]; got != t.Rank() || ends[1].Size() != len(ranks) ||
		ends[1].Rank() != ends[0].Rank()+1 {
		return fmt.Errorf("members %d and %d of %v are on rank %d", ends[0].Rank(), ends[1].Rank(), ranks, t.Rank())
	}
	for i, c := range ends { // each member sends a byte two members ahead in the ring, and receives a byte
		n := c.Size()
		in, err := c.Irecv(make([]byte, 1), (c.Rank()+n-2)%n, i)
		if err != nil {
			return err
		}
		out, err := c.Isend([]byte{1}, (c.Rank()+2)%n, i)
		if err != nil {
			return err
		}
		if err := c.Wait(ctx, []spmd.Request{in, out}); err != nil {
			return err
		}
		if err := c.Close(); err != nil {
			return err
		}
	}
	return nil
}

// leak closes the transport with an open request. Close must return an error that names the request.
func leak(_ context.Context, t spmd.Transport, _ []string) error {
	ends, err := everyone(t, 1, "forgotten")
	if err != nil {
		return err
	}
	c := ends[0]
	if _, err := c.Irecv(make([]byte, 24), (c.Rank()+1)%c.Size(), 9); err != nil {
		return err
	}
	err = t.Close()
	want := fmt.Sprintf(
		`close communicator "forgotten", member %d: requests nobody waited for: receive 24 bytes from member %d, tag 9`,
		c.Rank(), (c.Rank()+1)%c.Size())
	if err == nil || err.Error() != want {
		return fmt.Errorf("close: %v, want %s", err, want)
	}
	return nil
}

// mismatch makes a communicator whose label on the last rank differs from the label on other ranks. The result must be
// an error, not a hang.
func mismatch(_ context.Context, t spmd.Transport, _ []string) error {
	label := "gradients"
	if t.Rank() == t.Size()-1 {
		label = "metrics"
	}
	_, err := everyone(t, 1, label)
	return err
}
