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

// A stream is a Conn over file descriptors: a pair of pipes, or a socket. A wait blocks a thread in
// the kernel, which is faster than Go's poller.
type stream struct {
	in, out int
	bells   *bells // carry frames without payload; nil without shared memory
	// the other side seems to run on another core: a frame arrived between two polls, and since
	// then all frames came before this side yielded
	beside   bool
	spin     spinPolicy
	shutdown *shutdown
	plays    bool // whether a request was sent after CONFIG
	head     [headerSize]byte
	payload  []byte
}

// newPipes returns a stream that reads from source and writes to sink. It takes ownership of both files.
func newPipes(source, sink *os.File) (*stream, error) {
	s := &stream{in: -1, out: -1}
	var err error
	if s.in, err = own(source); err == nil {
		s.out, err = own(sink)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// newSocket returns a stream over conn, and takes ownership of conn.
func newSocket(conn net.Conn) (*stream, error) {
	defer conn.Close()
	f, err := conn.(interface{ File() (*os.File, error) }).File()
	if err != nil {
		return nil, err
	}
	fd, err := own(f)
	return &stream{in: fd, out: fd}, err
}

// own returns a non-blocking duplicate of f's descriptor, and closes f.
func own(f *os.File) (int, error) {
	defer f.Close()
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, os.NewSyscallError("dup", err)
	}
	return fd, os.NewSyscallError("fcntl", unix.SetNonblock(fd, true))
}

// hang makes s use the bells in memory for frames without payload. Set child on the child's side.
func (s *stream) hang(memory []byte, child bool) { s.bells = newBells(memory, child) }

func (s *stream) Send(by time.Time, head, payload []byte) error {
	s.plays = s.plays || Plays(head)
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

// write writes as much of the parts as the descriptor accepts. For a header without payload, Write is faster than
// Writev.
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
		if time.Now().After(by) { // old headers may arrive forever
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

// A cutError is the error of a frame whose payload is incomplete.
type cutError struct {
	head [headerSize]byte
	came int
	err  error
}

func (e *cutError) Error() string { return fmt.Sprintf("%s: %v", e.what(), e.err) }

func (e *cutError) Unwrap() error { return e.err }

func (e *cutError) what() string {
	h, _ := parse(e.head[:]) // no error: the header was accepted before
	return fmt.Sprintf("%d of the %d bytes of %v came", e.came, h.length, h.kind)
}

// late returns the error to report for the timeout err. It includes the name of the missing answer,
// the time limit, the limit's key, and the number of bytes received of an incomplete frame.
func late(what string, within time.Duration, setting string, err error) error {
	came := ""
	if cut := (*cutError)(nil); errors.As(err, &cut) {
		came = ": " + cut.what()
	}
	return fmt.Errorf("no %s in %v (%s)%s", what, within, setting, came)
}

// The method await polls the bell between two system calls. A poll takes about 20 ns. The first
// number of polls is 1, the second is fewLooks, and then the number doubles up to manyLooks. If the
// other side runs on another core, the first number is besideLooks. A virtual machine loses its
// core for a while after about 3000 polls in a row.
const (
	fewLooks    = 50
	manyLooks   = 400
	besideLooks = 2000
)

// await waits for a header from the bell or the stream.
func (s *stream) await(by time.Time) error {
	if s.bells == nil {
		return s.fill(s.head[:], by)
	}
	looked := s.spin.spins()
	looks := 1
	if s.beside {
		looks = besideLooks
	}
	yielded := false
	for again := looked; again; yielded, again = true, s.spin.again() {
		s.bells.look()
		if look := s.bells.rung(looks, s.head[:]); look > 0 {
			s.beside = look > 1 || s.beside && !yielded
			s.spin.found()
			return nil
		}
		if looks == 1 {
			looks = fewLooks
			continue
		}
		looks = min(2*looks, manyLooks)
		n, err := unix.Read(s.in, s.head[:])
		if n > 0 {
			s.spin.found()
		}
		if err != unix.EAGAIN && err != unix.EINTR {
			if n <= 0 && s.bells.rung(1, s.head[:]) > 0 { // the last frame before the other side closed the stream
				return nil
			}
			return s.fill(s.head[max(n, 0):], by) // the rest of the header, or the error
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

// fill reads len(b) bytes from the stream into b.
func (s *stream) fill(b []byte, by time.Time) error {
	_, err := s.read(b, by)
	return err
}

// read does the work of fill. If it fails, it also returns the number of missing bytes.
func (s *stream) read(b []byte, by time.Time) (left int, err error) {
	for len(b) > 0 {
		n, err := unix.Read(s.in, b)
		switch {
		case err == unix.EINTR || err == unix.EAGAIN && s.spin.again():
		case err == unix.EAGAIN:
			if err := s.wait(s.in, unix.POLLIN, by); err != nil {
				return len(b), err
			}
		case err == unix.ECONNRESET || err == nil && n == 0:
			return len(b), ErrGone
		case err != nil:
			return len(b), os.NewSyscallError("read", err)
		default:
			s.spin.found()
			b = b[n:]
		}
	}
	return 0, nil
}

// A spinPolicy decides whether to poll again or to block. Waking up takes longer than a fast
// simulator's step, so the caller first polls for spinFor, and yields the core between polls. If no
// answer comes in this time, the caller does not poll for the next answers: first for 1 answer,
// then for 3, 7, … up to maxSleeps.
type spinPolicy struct {
	until           time.Time // end of the polling for the current answer; zero before it begins
	backoff, sleeps int       // number of answers without polling after the last failure, and how many of them are left
}

const (
	spinFor   = 200 * time.Microsecond
	maxSleeps = 63
)

// spins reports whether to poll for the next answer.
func (p *spinPolicy) spins() bool { return p.sleeps == 0 }

// again reports whether to poll again. Call it after each poll that found no answer.
func (p *spinPolicy) again() bool {
	if p.sleeps > 0 {
		p.sleeps--
		return false
	}
	now := time.Now()
	if p.until.IsZero() {
		p.until = now.Add(spinFor)
	}
	if now.Before(p.until) {
		unix.Syscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
		return true
	}
	p.backoff = min(2*p.backoff+1, maxSleeps)
	p.until, p.sleeps = time.Time{}, p.backoff
	return false
}

// found records that the answer has arrived.
func (p *spinPolicy) found() {
	if !p.until.IsZero() {
		p.until, p.backoff = time.Time{}, 0
	}
}

// wait blocks until fd is ready for events or the other side is gone.
func (s *stream) wait(fd int, events int16, by time.Time) error {
	for start, longest := time.Now(), s.shutdown.pollMillis(); ; {
		until := s.shutdown.deadline(start, by)
		left := min(max(time.Until(until).Milliseconds()+1, 0), longest)
		fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}}
		n, err := unix.Poll(fds[:], int(left))
		switch {
		case err == unix.EINTR:
		case err != nil:
			return os.NewSyscallError("poll", err)
		case n > 0:
			return nil // ready, or closed: the next read or write reports which
		case !time.Now().Before(by):
			return os.ErrDeadlineExceeded
		}
		if err := s.shutdown.tooLate(start, by, s.plays); err != nil {
			return err
		}
	}
}

// finish closes the sending descriptor. The stream can still receive.
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
