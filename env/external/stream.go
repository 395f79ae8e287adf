package external

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A stream is a Link over descriptors: a pair of pipes, or a socket. It waits in the kernel, for
// which a thread of this process blocks: that takes less time than Go's poller does.
type stream struct {
	in, out int
	bells   *bells // where frames without payload come and go too; nil: there are none
	// the other side has a core of its own: a frame came between two looks, and since then none by
	// yielding alone
	beside  bool
	lookout lookout
	haste   *haste
	head    [headerSize]byte
	payload []byte
}

// newPipes returns a stream that reads in and writes out, which belong to it from now on.
func newPipes(in, out *os.File) (*stream, error) {
	s := &stream{in: -1, out: -1}
	var err error
	if s.in, err = own(in); err == nil {
		s.out, err = own(out)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newSocket returns a stream over conn, which belongs to it from now on.
func newSocket(conn net.Conn) (*stream, error) {
	defer conn.Close()
	f, err := conn.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return nil, err
	}
	fd, err := own(f)
	return &stream{in: fd, out: fd}, err
}

// own takes the descriptor out of f, so that reads and writes of it never wait.
func own(f *os.File) (int, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	return fd, os.NewSyscallError("fcntl", unix.SetNonblock(fd, true))
}

// hang has frames without payload go by the bells in this memory too, as the side of the
// conversation that s is.
func (s *stream) hang(memory []byte, child bool) { s.bells = newBells(memory, child) }

func (s *stream) Send(by time.Time, head, payload []byte) error {
	if s.bells != nil && carries(head) && s.bells.ring(head) {
		return nil
	}
	parts := [2][]byte{head, payload}
	for len(parts[0])+len(parts[1]) > 0 {
		n, err := s.write(parts)
		switch {
		case err == nil:
			first := min(n, len(parts[0]))
			parts[0], parts[1] = parts[0][first:], parts[1][n-first:]
		case err == unix.EAGAIN:
			if err := s.wait(s.out, unix.POLLOUT, by); err != nil {
				return err
			}
		case err == unix.EPIPE || err == unix.ECONNRESET:
			return ErrGone
		case err != unix.EINTR:
			return os.NewSyscallError("write", err)
		}
	}
	return nil
}

// write writes some of the parts. A header alone, as with shared memory, takes less than a list.
func (s *stream) write(parts [2][]byte) (int, error) {
	if len(parts[1]) == 0 {
		return unix.Write(s.out, parts[0])
	}
	return unix.Writev(s.out, parts[:])
}

func (s *stream) Receive(by time.Time, accept func(head []byte) (uint64, error)) (head, payload []byte, err error) {
	for {
		if err := s.await(by); err != nil {
			return nil, nil, err
		}
		if s.bells == nil || s.bells.news(s.head[:]) {
			break
		}
		if time.Now().After(by) { // it may go on like this for ever
			return nil, nil, os.ErrDeadlineExceeded
		}
	}
	n, err := accept(s.head[:])
	if err != nil {
		return nil, nil, err
	}
	if uint64(cap(s.payload)) < n {
		s.payload = make([]byte, n)
	}
	s.payload = s.payload[:n]
	if left, err := s.read(s.payload, by); err != nil {
		return nil, nil, &cutError{s.head, len(s.payload) - left, err}
	}
	return s.head[:], s.payload, nil
}

// A cutError is what a frame comes to whose payload did not come whole: what the header announces
// is more than what was sent, say.
type cutError struct {
	head [headerSize]byte
	came int
	err  error
}

func (e *cutError) Error() string { return fmt.Sprintf("%s: %v", e.what(), e.err) }

func (e *cutError) Unwrap() error { return e.err }

func (e *cutError) what() string {
	h, _ := parse(e.head[:]) // which was accepted
	return fmt.Sprintf("%d of the %d bytes of %v came", e.came, h.length, h.kind)
}

// late says of err, by which there was no answer within the time that setting gives, how much of
// one there was.
func late(what string, within time.Duration, setting string, err error) error {
	came := ""
	if cut := (*cutError)(nil); errors.As(err, &cut) {
		came = ": " + cut.what()
	}
	return fmt.Errorf("no %s in %v (%s)%s", what, within, setting, came)
}

// How often await looks at the bell, at some 20 ns each, before it looks at the stream, which takes
// a system call. It begins with one look, for the other side may be waiting for the core that this
// one has, and goes on with fewLooks and twice as many each time. Where the other side has a core
// of its own it begins with besideLooks: what comes within a system call is seen later. Machines
// that are virtual lose their core for a while after some 3000 in a row.
const (
	fewLooks    = 50
	manyLooks   = 400
	besideLooks = 2000
)

// await waits for a header, by the bell or by the stream.
func (s *stream) await(by time.Time) error {
	if s.bells == nil {
		return s.fill(s.head[:], by)
	}
	looked := s.lookout.looks()
	looks := 1
	if s.beside {
		looks = besideLooks
	}
	yielded := false
	for again := looked; again; yielded, again = true, s.lookout.again() {
		s.bells.look()
		if look := s.bells.rung(looks, s.head[:]); look > 0 {
			s.beside = look > 1 || s.beside && !yielded
			s.lookout.found()
			return nil
		}
		if looks == 1 {
			looks = fewLooks
			continue
		}
		looks = min(2*looks, manyLooks)
		n, err := unix.Read(s.in, s.head[:])
		if n > 0 {
			s.lookout.found()
		}
		if err != unix.EAGAIN && err != unix.EINTR {
			if n <= 0 && s.bells.rung(1, s.head[:]) > 0 { // the last that it said before it went
				return nil
			}
			return s.fill(s.head[max(n, 0):], by) // the rest, or what is wrong
		}
	}
	s.beside = false
	if s.bells.leave(s.head[:]) {
		return nil
	}
	if looked {
		if err := s.wait(s.in, unix.POLLIN, by); err != nil {
			return err
		}
	}
	return s.fill(s.head[:], by)
}

// fill reads as many bytes as b has.
func (s *stream) fill(b []byte, by time.Time) error {
	_, err := s.read(b, by)
	return err
}

// read is fill, and returns how many bytes are left to be read.
func (s *stream) read(b []byte, by time.Time) (left int, err error) {
	for len(b) > 0 {
		n, err := unix.Read(s.in, b)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN && s.lookout.again():
		case err == unix.EAGAIN:
			if err := s.wait(s.in, unix.POLLIN, by); err != nil {
				return len(b), err
			}
		case err == unix.ECONNRESET || err == nil && n == 0:
			return len(b), ErrGone
		case err != nil:
			return len(b), os.NewSyscallError("read", err)
		default:
			s.lookout.found()
			b = b[n:]
		}
	}
	return 0, nil
}

// A lookout says whether who waits for an answer should look for it again, or sleep until it is
// there: to be woken takes longer than a quick simulator's step. It lets others have the core
// between looks. Where looking is in vain, for the simulator is slow or the cores are taken, it is
// left off for as many answers as 1, 3, 7, … to maxSleeps.
type lookout struct {
	until        time.Time // of the looking that goes on; else zero
	vain, sleeps int       // answers to sleep for after a failure, and those that are left
}

const (
	lookFor   = 200 * time.Microsecond
	maxSleeps = 63
)

// looks says whether the next answer is looked for.
func (l *lookout) looks() bool { return l.sleeps == 0 }

// again is asked when there is no answer yet.
func (l *lookout) again() bool {
	if l.sleeps > 0 {
		l.sleeps--
		return false
	}
	now := time.Now()
	if l.until.IsZero() {
		l.until = now.Add(lookFor)
	}
	if now.Before(l.until) {
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return true
	}
	l.vain = min(2*l.vain+1, maxSleeps)
	l.until, l.sleeps = time.Time{}, l.vain
	return false
}

// found ends the looking.
func (l *lookout) found() {
	if !l.until.IsZero() {
		l.until, l.vain = time.Time{}, 0
	}
}

// wait waits until fd can be read or written, as events says, or the other side is gone.
func (s *stream) wait(fd int, events int16, by time.Time) error {
	for start, longest := time.Now(), s.haste.longest(); ; {
		until := s.haste.bound(start, by)
		left := min(max(time.Until(until).Milliseconds()+1, 0), longest)
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds[:], int(left))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil // the call that follows says whether there is anything
		case !time.Now().Before(by):
			return os.ErrDeadlineExceeded
		case !time.Now().Before(until):
			return errHaste
		}
	}
}

// finish ends what is sent over pipes; what comes is heard on.
func (s *stream) finish() error {
	err := unix.Close(s.out)
	s.out = -1
	return err
}

// Close closes the descriptors.
func (s *stream) Close() error {
	var err error
	if s.in >= 0 {
		err = unix.Close(s.in)
	}
	if s.out >= 0 && s.out != s.in {
		err = errors.Join(err, unix.Close(s.out))
	}
	s.in, s.out = -1, -1
	return err
}

var _ io.Closer = (*stream)(nil)
