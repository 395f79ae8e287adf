package external

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rlinf/rlinf/internal/test"
	"github.com/rlinf/rlinf/tensor"
	"golang.org/x/sys/unix"
)

// belled returns the two sides of a conversation over pipes and bells in the same memory.
func belled(t *testing.T) (parent, child *stream) {
	t.Helper()
	pipe := func() (r, w *os.File) {
		r, w, err := os.Pipe()
		test.OK(t, err)
		return r, w
	}
	requests, toChild := pipe()
	answers, toParent := pipe()
	parent, err := newPipes(answers, toChild)
	test.OK(t, err)
	if child, err = newPipes(requests, toParent); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { parent.Close(); child.Close() })
	memory := tensor.New(tensor.U8, bellsSize).Bytes()
	parent.hang(memory, false)
	child.hang(memory, true)
	return parent, child
}

// next receives a frame, and returns an error unless it has this seq.
func (s *stream) next(by time.Time, k kind, seq uint64) error {
	head, _, err := s.Receive(by, func(head []byte) (uint64, error) {
		h, err := parse(head)
		return h.length, err
	})
	if err != nil {
		return err
	}
	if h, _ := parse(head); h.kind != k || h.seq != seq {
		return errors.New("another frame: " + h.kind.String())
	}
	return nil
}

// sendBy sends a frame with a header and a payload.
func sendBy(by time.Time, s *stream, k kind, seq uint64, payload []byte) error {
	var head [headerSize]byte
	header{kind: k, seq: seq, length: uint64(len(payload))}.put(head[:])
	return s.Send(by, head[:], payload)
}

// dawdle sometimes sleeps until the other side blocks, and sometimes spins until the other side is about to block.
func dawdle(r *rand.Rand) {
	switch r.IntN(200) {
	case 0:
		time.Sleep(time.Millisecond) // the other side blocks, and does not poll for a while
	case 1:
		until := time.Now().Add(spinFor - 20*time.Microsecond + time.Duration(r.IntN(40))*time.Microsecond)
		for time.Now().Before(until) {
		}
	}
}

// TestBellOfWhoLooks: a frame for a side that polls its bell does not enter the stream.
func TestBellOfWhoLooks(t *testing.T) {
	parent, child := belled(t)
	by := time.Now().Add(time.Minute)
	child.bells.look()
	test.OK(t, sendBy(by, parent, reset, 1, nil))
	if n, err := unix.Read(child.in, make([]byte, 1)); err != unix.EAGAIN {
		t.Fatalf("the child looks, and the stream has %d bytes, %v", n, err)
	}
	test.OK(t, errors.Join(child.next(by, reset, 1), sendBy(by, child, result, 1, nil), parent.next(by, result, 1)))
}

// TestBells: every frame arrives once and in order, whether the sides poll or block. That includes frames with a
// payload, which travel by the stream.
func TestBells(t *testing.T) {
	const frames = 20000
	parent, child := belled(t)
	by := time.Now().Add(time.Minute)
	kindOf := func(seq uint64) (kind, []byte) {
		if seq%64 == 63 {
			return load, []byte{1, 2, 3}
		}
		return step, nil
	}
	failed := make(chan error, 1)
	go func() {
		r := rand.New(rand.NewPCG(1, 1))
		for seq := uint64(1); seq <= frames; seq++ {
			k, _ := kindOf(seq)
			if err := child.next(by, k, seq); err != nil {
				failed <- err
				return
			}
			dawdle(r)
			if err := sendBy(by, child, result, seq, nil); err != nil {
				failed <- err
				return
			}
		}
		failed <- nil
	}()
	r := rand.New(rand.NewPCG(2, 2))
	for seq := uint64(1); seq <= frames; seq++ {
		k, payload := kindOf(seq)
		test.OK(t, sendBy(by, parent, k, seq, payload))
		test.OK(t, parent.next(by, result, seq), "answer %d", seq)
		dawdle(r)
	}
	test.OK(t, <-failed)
}

// TestBellsAreNotTrusted: a frame in a bell is checked like a frame in the stream. If the same frame arrives again and
// again, Receive ends at its deadline.
func TestBellsAreNotTrusted(t *testing.T) {
	parent, child := belled(t)
	child.bells.out[seqWord] = 1
	if err := parent.next(time.Now().Add(time.Minute), result, 1); err == nil ||
		!strings.Contains(err.Error(), `where a frame should begin, expected "RLB1"`) {
		t.Errorf("a header of zeroes: %v", err)
	}
	var head [headerSize]byte
	header{kind: result, seq: 5}.put(head[:])
	parent.bells.taken, child.bells = 5, nil
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
				child.Send(time.Now().Add(time.Millisecond), head[:], nil)
			}
		}
	}()
	if err := parent.next(time.Now().Add(20*time.Millisecond), result, 6); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("old frames for ever: %v, want %v", err, os.ErrDeadlineExceeded)
	}
	close(stop)
	<-ended
}
